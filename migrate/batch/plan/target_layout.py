"""The layout of the new store: its segments under its retention, its changelog positions, and where they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from migrate.batch.source.snapshot import snapshot_directories, snapshot_record
from migrate.batch.source.source import application_of, is_another_system, source_system, target_system
from migrate.engine.chunk_source import WRONG_INTERVAL, newest_time
from migrate.errors import RefusedError
from migrate.model.plan import DatabasePlan, Input, Plan, TimeSlice
from migrate.model.store_partition import ChangelogOffsets, Line, Segment, StorePartition, segment_name
from migrate.spec.changelog_way import new_names
from migrate.spec.sections import SourceSection, TargetSection
from migrate.spec.spec import Spec
from migrate.stores.files import write_synced
from migrate.stores.rocksdb.database import open_read_only
from migrate.systems import System
from migrate.systems.checkpoint_file import translate_lines
from migrate.systems.families import families_to_carry

MOST_SEGMENTS = 1000
"""The most segments of a store partition: each is a RocksDB directory that its owner keeps open."""
EXPIRED = "expired"
"""The name, in place of a segment's, for records that are older than the new store's retention."""


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
    return source_system(spec).segments.of(spec.source_path, partition)


def new_partition(spec: Spec, partition: StorePartition, databases: Sequence[DatabasePlan]) -> StorePartition:
    """The store partition in the new store, under the id of the old one."""
    mine = [plan.database for plan in databases if plan.store_partition == partition.id and plan.is_kept]
    changes: dict[str, object] = {"databases": tuple(mine)}
    task, store, system = partition.task, new_names(spec).get(partition.store, partition.store), target_system(spec)
    if is_another_system(spec):
        task = system.task_of(source_system(spec), task)
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
    return Retention(section.retention_ms, system.segments.size(section.retention_ms, section.segment_ms))


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


def new_positions(
    spec: Spec, partition: StorePartition, stated: ChangelogOffsets, rewritten: tuple[Line, ...] | None = None
) -> ChangelogOffsets:
    """The positions of a new store partition, where side files or a key of the old one state `stated`.

    `partition`: the old one, as the plan has it. `rewritten`: the lines for the changelog that was written for the new
    store, which no column family states; None: the old store's changelog fits it.
    """
    source, target = spec.source_format, spec.target_format
    if spec.target.store_names and rewritten is None:  # what the old store states is of a topic that is not its own
        rewritten = ()
    carried = () if rewritten is not None else families_to_carry(target, spec.target.version, source.metadata_families)
    positions = stated
    if source.position_keys or set(carried) != set(source.metadata_families):
        within = source_system(spec).offsets.within(application_of(spec), partition, _newest_first(spec, partition))
        positions = ChangelogOffsets(
            lines=stated.lines or within.lines,
            own_file=within.own_file if stated.own_file is None else stated.own_file,
        )
    if rewritten is not None:
        return positions.model_copy(update={"lines": rewritten})
    if source_system(spec).offsets.counts_stops:  # past the end no record is there to continue with
        ends = snapshot_record(spec.home).changelog_ends
        lines = tuple((topic, n, min(at, ends.get(f"{topic}-{n}", at))) for topic, n, at in positions.lines)
        positions = positions.model_copy(update={"lines": lines})
    if not is_another_system(spec):
        return positions
    return ChangelogOffsets(lines=translate_lines(positions.lines, source_system(spec), target_system(spec)))


def _newest_first(spec: Spec, partition: StorePartition) -> list[Path]:
    """The snapshots of an old store partition's RocksDB directories."""
    directories = snapshot_directories(spec.home, partition)
    if not partition.has_segments:
        return list(directories.values())
    return [directories[segment.name] for segment in reversed(segments_of(spec, partition))]


@dataclass(frozen=True)
class PositionEntries:
    """The entries that state changelog offsets in new stores: behind what was written to a changelog for the new store,
    or else where the snapshot was."""

    spec: Spec
    plan: Plan
    rewritten: Mapping[str, tuple[Line, ...]]
    """By store partition, as `new_positions` takes them."""

    def of(self, partition_id: str) -> dict[str, dict[bytes, bytes]]:
        """The entries in each RocksDB directory of a new store partition, by column family."""
        if not self.spec.target_format.position_keys:
            return {}
        partition = self.plan.partition(partition_id)
        assert not self.plan.old_partitions  # of systems whose stores cannot have another name
        positions = new_positions(self.spec, partition, self._stated[partition_id], self.rewritten.get(partition_id))
        return target_system(self.spec).offsets.entries(self.plan.new_partition(partition), positions)

    @cached_property
    def _stated(self) -> dict[str, ChangelogOffsets]:
        return snapshot_record(self.spec.home).positions


def write_new_positions(spec: Spec, plan: Plan, application: Path, rewritten: Mapping[str, tuple[Line, ...]]) -> None:
    """Write the side files of a new state directory that no process uses yet; the caller syncs it.

    `rewritten`: by store partition, as `new_positions` takes them.
    """
    source, target = source_system(spec), target_system(spec)
    if plan.old_partitions:
        for partition in plan.store_partitions:
            positions = ChangelogOffsets(lines=rewritten.get(partition.id, ()))
            if positions.lines:  # a position in another topic, or none, would be a false one
                _write_positions(spec, target, application, partition, positions)
        return
    for partition in plan.store_partitions:
        stated = source.offsets.read(spec.source_path, partition)
        positions = new_positions(spec, partition, stated, rewritten.get(partition.id))
        new = plan.new_partition(partition)
        if positions == stated and (new.task, new.store) == (partition.task, partition.store):
            continue  # carried over with everything else
        if new.store != partition.store and new.task == partition.task:  # the old store is not there
            _write_positions(spec, target, application, partition, ChangelogOffsets())
        _write_positions(spec, target, application, new, positions)


def _write_positions(
    spec: Spec, system: System, application: Path, partition: StorePartition, positions: ChangelogOffsets
) -> None:
    files = system.offsets.write(application, partition, positions, application=spec.source_path.name)
    for relative, text in files.items():
        if text is None:
            (application / relative).unlink(missing_ok=True)
        else:
            write_synced(application / relative, text.encode())


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a windowed store keeps records, and the time that one of its segments covers."""

    retention_ms: int
    segment_ms: int


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment of the new store and its inputs, the newest first."""

    name: str
    inputs: tuple[Input, ...]
    times: TimeSlice | None = None
    is_kept: bool = True


def as_they_are(store: str, segments: Sequence[Segment]) -> list[NewSegment]:
    """The same segments, under the names that current releases use."""
    return [NewSegment(segment_name(store, each.start_ms), (Input(database=each.name),)) for each in segments]


def emptied(store: str, segments: Sequence[Segment], new: Retention) -> NewSegment:
    """The one segment made of segments without records: since 4.3 a store without segments forgets its position."""
    name = segment_name(store, _floor(segments[-1].start_ms, new.segment_ms))
    return NewSegment(name, tuple(Input(database=each.name) for each in reversed(segments)))


def re_segmented(
    store: str, segments: Sequence[Segment], old: Retention, new: Retention, *, reached_ms: int
) -> list[NewSegment]:
    """The segments that hold the same records under another retention, and one of expired records that is not kept.

    `reached_ms`: the time of the newest record. Raises RefusedError for too many segments.
    """
    if not segments:
        return []
    first = _floor(min(each.start_ms for each in segments), new.segment_ms)
    oldest = max(first, _floor(max(reached_ms - new.retention_ms, 0), new.segment_ms))
    found = []
    if first < oldest:
        found.append(_new_segment(EXPIRED, segments, old, TimeSlice(start_ms=first, end_ms=oldest)))
    runs = [
        range(
            max(oldest, _floor(each.start_ms, new.segment_ms)),
            min(each.start_ms + old.segment_ms, reached_ms + 1),
            new.segment_ms,
        )
        for each in segments
    ]
    for start in sorted(_starts(runs, new)):
        times = TimeSlice(start_ms=start, end_ms=start + new.segment_ms)
        found.append(_new_segment(segment_name(store, start), segments, old, times))
    return found


def _starts(runs: Sequence[range], new: Retention) -> set[int]:
    """Where the new segments begin: as many as there may be records for, whatever the retention has room for.

    Raises RefusedError for more than their owner should keep open, and than it had.
    """
    most, longest = max(MOST_SEGMENTS, len(runs)), max(map(len, runs))
    starts = set().union(*runs) if longest <= most else set()
    if max(longest, len(starts)) > most:
        raise RefusedError(
            f"the records there, in segments of {new.segment_ms:,} ms, would be {max(longest, len(starts)):,} or more "
            "RocksDB directories for each task",
            hint=f"check retention_ms and segment_ms: at most {most:,} segments are made",
        )
    return starts


def share(source: Input, times: TimeSlice | None) -> float:
    """The fraction of an input's time that lies in `times`."""
    own = source.times
    if own is None or times is None:
        return 1.0
    common = min(own.end_ms, times.end_ms) - max(own.start_ms, times.start_ms)
    return max(0, common) / (own.end_ms - own.start_ms)


def _new_segment(name: str, segments: Sequence[Segment], old: Retention, times: TimeSlice) -> NewSegment:
    inputs = tuple(
        Input(database=each.name, times=TimeSlice(start_ms=each.start_ms, end_ms=each.start_ms + old.segment_ms))
        for each in reversed(segments)
        if each.start_ms < times.end_ms and each.start_ms + old.segment_ms > times.start_ms
    )
    return NewSegment(name, inputs, times, is_kept=name != EXPIRED)


def _floor(time_ms: int, size_ms: int) -> int:
    return time_ms // size_ms * size_ms
