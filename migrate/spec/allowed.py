"""What `[conversion] allow` can name, what each name means, and what a conversion needs to be allowed."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, Literal

from formats import FORMATS, Conversion, Format, conversion_problem
from migrate.errors import RefusedError

Allowance = Literal[
    "application-id",
    "changelog",
    "drop",
    "key-change",
    "looks-converted",
    "loss:fields",
    "loss:headers",
    "loss:history",
    "loss:timestamp",
    "lost-tombstones",
    "unclean-source",
    "unverified",
]
APPLICATION_ID: Final = "application-id"
CHANGELOG: Final = "changelog"
DROP: Final = "drop"
KEY_CHANGE: Final = "key-change"
LOOKS_CONVERTED: Final = "looks-converted"
LOST_FIELDS: Final = "loss:fields"
LOST_TOMBSTONES: Final = "lost-tombstones"
UNCLEAN_SOURCE: Final = "unclean-source"
UNVERIFIED: Final = "unverified"
MEANINGS: dict[str, str] = {
    LOST_FIELDS: "fields that the new Avro schema leaves out, and symbols that become its default, are lost",
    "loss:timestamp": "the old store's timestamps have no place in the new one",
    "loss:headers": "the old store's headers have no place in the new one",
    "loss:history": "the latest value of each key stays, former ones have no place in the new store",
    APPLICATION_ID: "the new directory has another id's name, and you make the topics and offsets of that id",
    CHANGELOG: "the changelog topic would still hold records of the old form, which a section [changelog] migrates",
    DROP: "records for which the function returns None are left out; [run] max_dropped or max_dropped_share bounds it",
    KEY_CHANGE: "keys change, and every new key belongs to the same task as the old one, or where partitions puts it",
    LOOKS_CONVERTED: "sampled records decode as the new format too, and are of the old one",
    LOST_TOMBSTONES: "keys that were deleted since the snapshot may come back, as the broker may have removed that",
    UNCLEAN_SOURCE: "the application may replay records of the old form into the new store",
    UNVERIFIED: "new stores go live without a verification",
}


class StaleChangelogError(RefusedError):
    """The changelog would no longer fit the new store, and the spec does not allow that."""


_SHOWN = 5
_MIGRATE_IT = 'migrate it with the store: a section [changelog] with bootstrap = "host:port" (docs/changelogs.md); or '
_ALLOW = "[conversion] allow = "


def allowing(*names: str) -> str:
    """The spec's line that allows `names`, for hints."""
    return f"{_ALLOW}{json.dumps(names)}"


def asks_to_allow(hint: str) -> bool:
    """Whether a hint has such a line."""
    return _ALLOW in hint


def possible_targets(source: Format, wanted: Format) -> tuple[str, ...]:
    """The formats that a store of `source` can become, of its own system if possible, the most like `wanted` first."""
    possible = [known for known in FORMATS if known.id != source.id and conversion_problem(source, known) is None]
    own = [known for known in possible if known.system == source.system] or possible
    return tuple(known.id for known in sorted(own, key=lambda known: len(known.carries ^ wanted.carries)))


def must_be_allowed(conversion: Conversion) -> tuple[str, ...]:
    """The names without which a run of this conversion is refused."""
    return (*conversion.losses, *((CHANGELOG,) if conversion.changes_changelog else ()))


def check_allowed(conversion: Conversion, allow: Collection[str]) -> None:
    """Raises RefusedError for what the conversion needs to be allowed and `allow` does not name."""
    for name in must_be_allowed(conversion):
        if name in allow:
            continue
        if name == CHANGELOG:
            raise StaleChangelogError(
                "the changelog topic would still hold records of the old form: the next rebalance or restore would put "
                "them back into the new store, and the application would misread them",
                hint=f"{_MIGRATE_IT if conversion.source.has_changelog else ''}{allowing(name)}, if you rewrite that "
                "topic yourself",
            )
        if name == LOST_FIELDS:
            lost = conversion.lost_fields
            more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            raise RefusedError(
                f"the new schema loses what old values may hold: {'; '.join(lost[:_SHOWN])}{more}",
                hint="add aliases for what was renamed, or what is missing, to the new schema; or, if the loss is "
                f"acceptable, set {allowing(name)}",
            )
        raise RefusedError(
            f"{conversion.target.id} cannot hold the {name.removeprefix('loss:')} that {conversion.source.id} holds",
            hint=f"if the store has that format and the loss is acceptable, set {allowing(name)}",
        )
