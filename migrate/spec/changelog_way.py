"""Which way a changelog goes, by the spec alone, and what a spec cannot ask of it."""

from __future__ import annotations

import json

from formats import Conversion, Format
from formats.layout import TIMESTAMP
from migrate.errors import RefusedError
from migrate.model.changelogs import Way
from migrate.spec.allowed import CHANGELOG, allowing
from migrate.spec.sections import ChangelogSection
from migrate.spec.spec import Spec

_APPEND = (
    'set [changelog] way = "append": the store keeps its name, and the converted records are appended to its topic'
)
_TWO_WAYS = (
    "name the store that the new code declares in [target] store: its changelog is a new topic, and the old one stays; "
    f"or {_APPEND}"
)
_RENAME = "name a new store in [target] store: its changelog is a new topic"
_MADE = "the new store's changelog is made with it, and a restore from it gives the same store"
_NOTES = {
    "new-topic": "the new store has a changelog of its own, and a restore from it gives the same store; the old store "
    "keeps the old changelog",
    "append": "the converted records are appended to the changelog: a restore gives the new store's records",
}
_NO_NEW_TOPIC = (
    "no changelog is written for the new name (allowed by name): right where the application disables logging; else "
    "the next rebalance or restore loses the store"
)
_NO_CHANGELOG_FOR_PARTITIONS = (
    "no changelog is written for the new number of partitions: right where the application disables logging; else an "
    "application with exactly-once wipes the store at its first start, as nothing states its position, and one with "
    "at-least-once keeps it, and cannot restore it"
)
_NO_LONGER_MATCHES = (
    "the changelog no longer matches the store (allowed by name): a restore brings the old records back"
)


def is_rewritten(spec: Spec, conversion: Conversion) -> bool:
    """Whether the new store's changelog has other records than the old one's, or is a topic of another name."""
    return conversion.changes_changelog or bool(spec.target.store_names)


def way_of(spec: Spec, conversion: Conversion) -> Way:
    """How the changelog comes to fit the new store; without `[changelog]`, we do nothing to it."""
    if spec.changelog is None or not (spec.source.rows or is_rewritten(spec, conversion)):
        return "none"
    return spec.changelog.way or "new-topic"


def is_undecided(spec: Spec, conversion: Conversion) -> bool:
    """Whether nothing says where the new records go, which `check_way` refuses."""
    return way_of(spec, conversion) == "new-topic" and not _has_new_topic(spec)


def stated_way(spec: Spec) -> Way:
    """The way of a spec that `check_way` has accepted: what the conversion does is not asked again."""
    if spec.changelog is None:
        return "none"
    return spec.changelog.way or ("new-topic" if _has_new_topic(spec) else "none")


def _has_new_topic(spec: Spec) -> bool:
    """Whether the new store has a topic that the old one has not: it has another name, or there is no old one."""
    return bool(spec.target.store_names or spec.source.rows)


def new_names(spec: Spec) -> dict[str, str]:
    """The names of the new stores by those of the old ones, which they keep unless `[target]` names others."""
    old = spec.source.store_names
    return dict(zip(old, spec.target.store_names or old, strict=True))


def check_way(spec: Spec, conversion: Conversion, *, can_rename: bool = True) -> None:
    """Raises RefusedError for a `[changelog]` that asks for what this conversion does not do, or cannot.

    `can_rename`: whether stores of the system can have another name.
    """
    section = spec.changelog
    if section is None or spec.source.rows:  # of which `check_rows_source` has refused what does not go with it
        return
    for format in (conversion.source, conversion.target):
        _check_has_changelog(spec, format)
    if not is_rewritten(spec, conversion):
        _check_nothing_asked(section, can_rename=can_rename)
    elif section.way == "append":
        _check_appendable(spec, conversion, can_rename=can_rename)
    elif not spec.target.store_names:
        raise RefusedError(
            "this conversion changes what the changelog must hold, and nothing says where the new records go",
            hint=_TWO_WAYS if can_rename else _APPEND,
        )
    if section.missing == "rebuild":
        _check_rebuildable(section, conversion)
    if section.timestamps == "changelog" and not conversion.takes_times:
        why = "has timestamps already" if TIMESTAMP in conversion.source.carries else "is converted to one without any"
        raise RefusedError(
            f'[changelog] timestamps = "changelog" has no effect: the old store {why}',
            hint="leave it out, or name a target format with timestamps in [target] format",
        )


def _check_has_changelog(spec: Spec, format: Format) -> None:
    if not format.has_changelog:
        raise RefusedError(
            f"[changelog]: a store of {format.id} has no changelog that this version knows",
            hint="leave the section [changelog] out",
        )
    if not spec.source.store_names:
        raise RefusedError(
            "[changelog] needs the store's name: a RocksDB directory alone does not say which topic is its changelog",
            hint="let [source] path name the application's directory, and [source] store the store in it",
        )


def _or_rename(hint: str, *, can_rename: bool) -> str:
    return f"{hint}; or {_RENAME}" if can_rename else hint


def _check_appendable(spec: Spec, conversion: Conversion, *, can_rename: bool) -> None:
    if spec.target_path is not None:
        raise RefusedError(
            '[changelog] way = "append" changes the topic that the old application reads too, so its way back is '
            "`rollback`, which a store in [target] path does not have",
            hint=_or_rename("leave [target] path out and use `cutover`", can_rename=can_rename),
        )
    if conversion.target.changelog_form.is_in_order_of_time:
        raise RefusedError(
            '[changelog] way = "append" does not go with a versioned store: a restore passes over versions that are '
            "older than what lies before them in the topic",
            hint=_RENAME,
        )
    if spec.run.source == "snapshot":
        raise RefusedError(
            '[changelog] way = "append" does not go with [run] source = "snapshot": the application would read the '
            "converted records while it runs",
            hint=_or_rename("stop the application, and leave [run] source out", can_rename=can_rename),
        )


def _check_rebuildable(section: ChangelogSection, conversion: Conversion) -> None:
    """What is made from a changelog alone is the last record of each key, under the key that it becomes."""
    why = ""
    if section.way == "append":
        why = 'with way = "append" nothing here has the old values, which its way back appends again'
    elif "versioned" in (conversion.source.kind, conversion.target.kind):
        why = "the changelog of a versioned store is its history, which is not reduced to keys"
    elif conversion.function is not None and conversion.keys_may_change:
        why = "the function may change keys"
    if why:
        raise RefusedError(
            f'[changelog] missing = "rebuild": {why}',
            hint="start the old application once so that it restores what is missing, stop it, and run again; or, if "
            'these keys may go: missing = "leave"',
        )


def _check_nothing_asked(section: ChangelogSection, *, can_rename: bool) -> None:
    if section.way is not None:
        rename = (
            "; or, if the new code declares another name, name it in [target] store: its topic gets the same records"
        )
        raise RefusedError(
            f'[changelog] way = "{section.way}": this conversion leaves the changelog as it is, and nothing is written '
            "to it",
            hint="leave [changelog] way out: the store keeps its name and its topic" + (rename if can_rename else ""),
        )


def check_partitions_changelog(spec: Spec, conversion: Conversion) -> None:
    """Raises RefusedError where another number of partitions leaves a store without its changelog."""
    is_left = spec.target.partitions is not None and spec.changelog is None and conversion.target.has_changelog
    if is_left and CHANGELOG not in spec.conversion.allow:
        raise RefusedError(
            f"[target] partitions: {_NO_CHANGELOG_FOR_PARTITIONS}",
            hint="add a section [changelog] with `bootstrap`, the broker, and name the new store in [target] store; "
            f"or, where the application disables logging for the store: {allowing(CHANGELOG)}",
        )


def check_catch_up(spec: Spec, conversion: Conversion, why: str = "", *, can_rename: bool) -> None:
    """Raises RefusedError for a store over which nothing can be laid; `why`: what has to be."""
    before = f"{why}, and no catch-up is possible: " if why else ""
    if spec.target.partitions is not None:
        raise RefusedError(
            f"{before}what came since belongs to other tasks by now, where the number of partitions changes",
            hint="start the old application, let it read its input to the end with nothing new coming in, and stop it "
            "cleanly; then run the same command again",
        )
    stop = "start and stop the old application once, cleanly"
    instead = f'{stop}, and migrate under another `name`, with [run] source = "live"'
    if way_of(spec, conversion) == "append":
        raise RefusedError(
            f'{before}with [changelog] way = "append" it would take our own records for the application\'s',
            hint=_or_rename(f"{stop}, before a run", can_rename=can_rename),
        )
    if "versioned" in (conversion.source.kind, conversion.target.kind):
        raise RefusedError(
            f"{before}the tail of a versioned store is its history, which is not reduced to keys", hint=instead
        )
    if conversion.function is not None and conversion.keys_may_change:
        raise RefusedError(
            f"{before}the function may change keys: of a key that was deleted since, nothing tells what became of it",
            hint=instead,
        )
    if conversion.source.is_segmented and None in (spec.source.retention_ms, spec.target.retention_ms):
        raise RefusedError(
            f"{before}nothing tells into which segments new records belong, and which ones have expired",
            hint="a windowed store needs retention_ms in [source] and [target]: what the application gives it (its "
            "changelog's retention.ms less windowstore.changelog.additional.retention.ms, a day by default). Start "
            "again with these under another `name`",
        )


def takes_times(spec: Spec, conversion: Conversion) -> bool:
    """Whether the new store takes its times from the old changelog."""
    return conversion.takes_times and spec.changelog is not None and spec.changelog.timestamps == "changelog"


def sees_times(spec: Spec, conversion: Conversion) -> bool:
    """Whether the function gets the times that the new store takes from the old changelog."""
    return conversion.function is not None and takes_times(spec, conversion)


def changelog_note(spec: Spec, conversion: Conversion) -> str:
    """What the operator must know about the changelog, in one sentence; every step reports it."""
    if (way := way_of(spec, conversion)) != "none":
        return _MADE if spec.source.rows else _NOTES[way]
    if not conversion.source.has_changelog and not conversion.target.has_changelog:
        return "no changelog is involved"
    if spec.target.partitions is not None or is_rewritten(spec, conversion):
        return _left_as_it_is(spec)
    if conversion.source.kind == "versioned" and conversion.target.kind == "key-value":
        return (
            "the changelog holds a record for each version and stays right; a restore takes the last one that was "
            "written, which is an older value where records came late"
        )
    if conversion.takes_times:
        is_taken = spec.changelog is not None and spec.changelog.timestamps == "changelog"
        times = "as this one has" if is_taken else f"where this one has {conversion.default_timestamp_ms}"
        return (
            "the changelog holds the bare values and stays right; a store that is restored from it has the changelog's "
            f"timestamps, {times}"
        )
    return "the changelog holds the bare values and stays right: a restore gives the same records"


def _left_as_it_is(spec: Spec) -> str:
    if spec.target.partitions is not None:
        return f"{_NO_CHANGELOG_FOR_PARTITIONS} (allowed by name)"
    return _NO_NEW_TOPIC if spec.target.store_names else _NO_LONGER_MATCHES


def changelog_identity(spec: Spec, application: str) -> dict[str, str]:
    """What belongs to the migration's identity: neither the broker's address nor how it is reached."""
    section = spec.changelog
    if section is None:
        return {}
    asked = {"application_id": application, "timestamps": section.timestamps}
    return {"[changelog]": json.dumps({**asked, "way": section.way or "new-topic"})}
