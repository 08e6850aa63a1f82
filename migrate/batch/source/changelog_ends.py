"""Where changelogs end, confirmed by the operator: the files do not show what the application wrote after them.

A position is the offset of the next record, for which a consumer at the end of a topic partition would wait. It is the
one after the last record that can be read: the broker's end offset also counts the markers of transactions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migrate.batch.source.source import Source
from migrate.errors import RefusedError, SpecError
from migrate.model.reports import InconclusiveCheck
from migrate.model.store_partition import StorePartition
from migrate.spec.allowed import CHANGELOG, UNCLEAN_SOURCE, allowing

ChangelogEnds = Mapping[str, int]
"""Positions by `<topic>-<partition>`."""
_END = re.compile(r"(?P<name>.+-\d+)=(?P<position>\d+)")
_MOST_SHOWN = 4
_ACCEPT = f"or, if nothing will be replayed, accept that: {allowing(UNCLEAN_SOURCE)}"
_LEAVE_IT = allowing(CHANGELOG, UNCLEAN_SOURCE)
"""What goes on where a topic is left as it is, and nothing tells where it ends."""
_CONFIRM = (
    'a section [changelog] with bootstrap = "host:port" lets us ask the broker; or ask it yourself while the '
    "application is stopped (docs/operations.md has the command), and confirm each: --changelog-end "
    f"TOPIC-PARTITION=N; {_ACCEPT}"
)
_INPUT_TOPIC = (
    "a table that is restored from its input topic (topology.optimization) shares it with others, and it is not "
    "rewritten: let the old application keep the table in a changelog of its own (topology.optimization = none), start "
    "and stop it once, and migrate that; or accept that the application replays that topic, as it is, into the new "
    "store (what is after the position when it starts, all of it in a restore): "
    f"{_LEAVE_IT}"
)


@dataclass(frozen=True, slots=True)
class _StatedPosition:
    """The position in its changelog up to which a store partition has the records."""

    store_partition: str
    name: str
    """`<topic>-<partition>`; empty where nothing names it."""
    position: int | None
    """None: unknown."""

    def __str__(self) -> str:
        known = "no position" if self.position is None else f"position {self.position}"
        return f"{known} of {self.name or f'the changelog of {self.store_partition}'}"


def parse_changelog_ends(texts: Iterable[str]) -> dict[str, int]:
    """The ends that texts `TOPIC-PARTITION=N` name. Raises SpecError for any other text."""
    ends: dict[str, int] = {}
    for text in texts:
        match = _END.fullmatch(text)
        if match is None or ends.get(match["name"], int(match["position"])) != int(match["position"]):
            problem = "is not TOPIC-PARTITION=N" if match is None else "contradicts an earlier one"
            raise SpecError(
                f"--changelog-end {text!r} {problem}",
                hint="for example: --changelog-end orders-app-orders-changelog-0=42",
            )
        ends[match["name"]] = int(match["position"])
    return ends


def check_ends(source: Source, ends: ChangelogEnds) -> str | InconclusiveCheck:
    """What was confirmed, as a sentence. Raises RefusedError unless each changelog ends at its store's position.

    An owner that counts its stops is past the end: the end counts then.
    """
    check_has_own_changelog(source)
    positions = [each for partition in source.partitions for each in _positions(source, partition)]
    if foreign := sorted(set(ends) - {each.name for each in positions}):
        raise RefusedError(
            f"--changelog-end names {foreign[0]}, which is not a changelog of these stores",
            hint=f"the files name {_listed([each.name for each in positions])}",
        )
    for each in positions:
        if each.name in ends and each.position is not None:
            _check_end(each, each.position, ends[each.name], may_be_ahead=source.system.offsets.counts_stops)
    if left := [each for each in positions if each.name not in ends or each.position is None]:
        raise RefusedError(
            f"the files name {_listed(left)}; only the broker knows whether the changelog ends there: an application "
            "that was killed replays what it wrote after that into the new store, in the old form",
            hint=_CONFIRM,
        )
    ahead = [f"{each}, which ends at {ends[each.name]}" for each in positions if (each.position or 0) > ends[each.name]]
    if ahead:
        taken = f"{_listed(ahead)}, as --changelog-end says: that end is taken, as the owner counts its stops"
        return InconclusiveCheck(taken, "make sure that these topics were not recreated")
    return f"every changelog ends where its store is, as --changelog-end says: {_listed(positions)}"


def check_has_own_changelog(source: Source) -> None:
    """Raises RefusedError for a store whose files state positions in topics that are no changelogs alone."""
    for partition in source.partitions:
        if (found := restored_from(source, partition)) and not source.changelog_lines(partition):
            raise RefusedError(f"{partition.id} has no position in a changelog: {found}", hint=_INPUT_TOPIC)


def way_without_changelog(source: Source) -> str:
    """What to do where logging may be disabled, for the end of a hint; empty: the files name each changelog."""
    unnamed = [partition.id for partition in source.partitions if not source.changelog_lines(partition)]
    if not unnamed:
        return ""
    return (
        f"; the files name no changelog of {unnamed[0]}: where logging is disabled for the store there is nothing to "
        f"rewrite, and nothing is replayed: {_LEAVE_IT}"
    )


def restored_from(source: Source, partition: StorePartition) -> str:
    """A sentence on topics that its task names and that are no changelogs; empty: there are none."""
    lines = source.system.offsets.inputs(source.path, partition)
    named = (f"position {offset} of the topic {topic}" for topic, _, offset in lines)
    return f"its task's files name {_listed(named)}, which is no changelog of the application" if lines else ""


def _check_end(each: _StatedPosition, position: int, end: int, *, may_be_ahead: bool) -> None:
    if end > position:
        raise RefusedError(
            f"{each.name} ends at {end}, and {each.store_partition} is at {position}: what lies between would be "
            "replayed into the new store, in the old form",
            hint=f"start the old application and stop it cleanly, then ask for the end again; {_ACCEPT}",
        )
    if end < position and not may_be_ahead:
        raise RefusedError(
            f"{each.name} ends at {end}, and {each.store_partition} is at {position} already",
            hint=f"ask the broker again, now that the application is stopped; {_ACCEPT}",
        )


def _positions(source: Source, partition: StorePartition) -> list[_StatedPosition]:
    lines = source.changelog_lines(partition)
    if not lines:
        return [_StatedPosition(partition.id, "", None)]
    return [
        _StatedPosition(partition.id, f"{topic}-{number}", source.system.offsets.next_record(offset))
        for topic, number, offset in lines
    ]


def _listed(entries: Iterable[object]) -> str:
    shown = [str(entry) for entry in entries]
    more = len(shown) - _MOST_SHOWN
    return ", ".join(shown[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
