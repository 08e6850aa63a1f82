"""The changelog positions of the new store, which may be kept in other places than the old store's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from migrate.batch.plan.target_layout import segments_of
from migrate.batch.source.snapshot import snapshot_directories, snapshot_record
from migrate.batch.source.source import is_another_system, source_system, target_system
from migrate.model.plan import Plan
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.spec.spec import Spec
from migrate.stores.files import write_synced
from migrate.systems import System
from migrate.systems.checkpoint_file import translate_lines
from migrate.systems.families import families_to_carry


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
    if set(carried) != set(source.metadata_families):
        within = source_system(spec).positions_within(_newest_first(spec, partition))
        positions = ChangelogOffsets(
            lines=stated.lines or within.lines,
            own_file=within.own_file if stated.own_file is None else stated.own_file,
        )
    if rewritten is not None:
        return positions.model_copy(update={"lines": rewritten})
    if source_system(spec).counts_stops:  # past the end no record is there to continue with
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
    """The entries that state changelog offsets in new stores: each changelog is read on from where the snapshot was."""

    spec: Spec
    plan: Plan

    def of(self, partition_id: str) -> dict[str, dict[bytes, bytes]]:
        """The entries in each RocksDB directory of a new store partition, by column family."""
        if not self.spec.target_format.position_keys:
            return {}
        partition = self.plan.partition(partition_id)
        positions = new_positions(self.spec, partition, self._stated[partition_id])
        return target_system(self.spec).position_entries(self.plan.new_partition(partition), positions)

    @cached_property
    def _stated(self) -> dict[str, ChangelogOffsets]:
        return snapshot_record(self.spec.home).positions


def write_new_positions(spec: Spec, plan: Plan, application: Path, rewritten: Mapping[str, tuple[Line, ...]]) -> None:
    """Write the side files of a new state directory that no process uses yet; the caller syncs it.

    `rewritten`: by store partition, as `new_positions` takes them.
    """
    source, target = source_system(spec), target_system(spec)
    for partition in plan.store_partitions:
        stated = source.positions(spec.source_path, partition)
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
    files = system.with_positions(application, partition, positions, application=spec.source_path.name)
    for relative, text in files.items():
        if text is None:
            (application / relative).unlink(missing_ok=True)
        else:
            write_synced(application / relative, text.encode())
