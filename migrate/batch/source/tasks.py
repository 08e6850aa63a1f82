"""Task directories of one changelog partition, of which the application uses one: the others were left behind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from migrate.batch.source.source import Source, find_partitions
from migrate.errors import RefusedError
from migrate.model.reports import Doubt
from migrate.model.store_partition import StorePartition
from migrate.spec.spec import Spec

_KEY = tuple[str, str, int]


def check_tasks(spec: Spec, source: Source) -> str | Doubt:
    """Raises RefusedError where two task directories have one changelog partition: both would be written to it."""
    by_changelog: dict[_KEY, list[StorePartition]] = {}
    for partition in source.partitions:
        if (key := _changelog(source, partition)) is not None:
            by_changelog.setdefault(key, []).append(partition)
    if shared := [each for each in by_changelog.values() if len(each) > 1]:
        raise _left_behind(source, shared)
    if not spec.source.leave_out:
        return ""
    _, left_out = find_partitions(spec)
    named = ", ".join(each.id for each in left_out) or "none of them is on this host"
    if alone := [each.id for each in left_out if _changelog(source, each) not in by_changelog]:
        return Doubt(
            f"{', '.join(alone)}: left out, and no other task directory here has its changelog partition",
            "make sure that another host has it; else take it out of [source] leave_out",
        )
    return f"left out: {named}"


def _changelog(source: Source, partition: StorePartition) -> _KEY | None:
    """What tells a changelog partition, whatever the subtopology's number is; None: the task has no numbers."""
    task = Path(partition.task)
    with suppress(RefusedError):
        return str(task.parent), partition.store, source.system.task_numbers(task.name)[1]
    return None


def _left_behind(source: Source, shared: Sequence[Sequence[StorePartition]]) -> RefusedError:
    sentences, behind, ahead = [], set[str](), set[str]()
    for found in shared:
        at = {each: source.position(each) for each in found}
        known = [offset for offset in at.values() if offset is not None]
        which = "nothing tells which is behind"
        if len(known) == len(found) and known.count(max(known)) == 1:
            older = [each.task for each, offset in at.items() if offset != max(known)]
            behind.update(older)
            ahead |= {each.task for each in found if each.task not in older}
            which = f"{' and '.join(older)} is behind"
        sentences.append(
            " and ".join(f"{each.id} ({_at(offset)})" for each, offset in at.items())
            + f" are directories of one changelog partition: {which}"
        )
    hint = "leave out the one that the application no longer uses: [source] leave_out"
    if behind and not behind & ahead:
        names = ", ".join(f'"{task}"' for task in sorted(behind))
        hint = f"the subtopologies were renumbered; leave out what was left behind: [source] leave_out = [{names}]"
    return RefusedError("; ".join(sentences), hint=hint)


def _at(offset: int | None) -> str:
    return "which states no position" if offset is None else f"at offset {offset:,}"
