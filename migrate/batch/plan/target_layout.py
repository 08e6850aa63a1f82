"""The layout of the new store: its segments, and the place of each store partition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from migrate.batch.chunk.reader import WRONG_INTERVAL, newest_time
from migrate.batch.source.segments import NewSegment, Retention, as_they_are, emptied, re_segmented
from migrate.batch.source.source import is_another_system, source_system, target_system
from migrate.errors import RefusedError
from migrate.model.plan import DatabasePlan, Input, TimeSlice
from migrate.model.store_partition import Segment, StorePartition
from migrate.spec.spec import SourceSection, Spec, TargetSection
from migrate.spec.ways import new_names
from migrate.stores.rocksdb.database import open_read_only
from migrate.systems import System


def new_segments(spec: Spec, partition: StorePartition, directories: dict[str, Path]) -> list[NewSegment]:
    """The RocksDB directories of a new store partition; one without segments is a single directory.

    `directories`: the source's, by database. Raises RefusedError for names that are no segment's.
    """
    if not partition.has_segments:
        return [NewSegment(name, (Input(database=name),)) for name in partition.databases]
    segments, store = segments_of(spec, partition), new_names(spec).get(partition.store, partition.store)
    old, new = _retentions(spec)
    if old is None or new is None or old == new or not segments:
        return as_they_are(store, segments)
    reached_ms = _reached(spec, segments, directories, old)
    if reached_ms is None:
        return [emptied(store, segments, new)]
    return re_segmented(store, segments, old, new, reached_ms=reached_ms)


def retention_and_reach(
    spec: Spec, partition: StorePartition, directories: dict[str, Path]
) -> tuple[Retention, int | None]:
    """The new store's retention, and the time of the old one's newest record; None: it has none."""
    old, new = _retentions(spec)
    assert old is not None
    assert new is not None
    return new, _reached(spec, segments_of(spec, partition), directories, old)


def segments_of(spec: Spec, partition: StorePartition) -> list[Segment]:
    """The segments of a store partition of the source, the oldest first; none where it is one RocksDB directory."""
    return source_system(spec).segments(spec.source_path, partition)


def new_partition(spec: Spec, partition: StorePartition, databases: Sequence[DatabasePlan]) -> StorePartition:
    """The store partition in the new store, under the id of the old one."""
    mine = [plan.database for plan in databases if plan.store_partition == partition.id and plan.is_kept]
    changes: dict[str, object] = {"databases": tuple(mine)}
    task, store, system = partition.task, new_names(spec).get(partition.store, partition.store), target_system(spec)
    if is_another_system(spec):
        task = system.task_name(source_system(spec).task_numbers(task))
    if (task, store) != (partition.task, partition.store):
        place = system.place(task, store, is_segmented=spec.target_format.is_segmented)
        changes |= {"task": task, "store": store, "path": place}
    return partition.model_copy(update=changes)


def _retentions(spec: Spec) -> tuple[Retention | None, Retention | None]:
    """(the old store's retention, the new one's); None where the spec has none."""
    return _retention(source_system(spec), spec.source), _retention(target_system(spec), spec.target)


def _retention(system: System, section: SourceSection | TargetSection) -> Retention | None:
    if section.retention_ms is None:
        return None
    return Retention(section.retention_ms, system.segment_size(section.retention_ms, section.segment_ms))


def _reached(spec: Spec, segments: Sequence[Segment], directories: dict[str, Path], old: Retention) -> int | None:
    """The time of the newest record, in milliseconds; only the records show it.

    Raises RefusedError where that record is not in the segment of its time.
    """
    source = spec.source_format
    for segment in reversed(segments):
        with open_read_only(directories[segment.name]) as database:
            families = [*(source.column_families or ()), *(older.name for older in source.older_families)]
            found = [
                newest_time(database, family, source.segment_time) for family in families if family in database.families
            ]
        if times := [time for time in found if time is not None]:
            own = TimeSlice(start_ms=segment.start_ms, end_ms=segment.start_ms + old.segment_ms)
            if not own.start_ms <= max(times) < own.end_ms:
                raise RefusedError(
                    f"{directories[segment.name]} is the segment of {own}, and its newest record is of {max(times)}: "
                    "its segments were made with another interval",
                    hint=WRONG_INTERVAL,
                )
            return max(times)
    return None
