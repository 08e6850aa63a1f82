"""The changelog positions of the new store, which may be kept in other places than the old store's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from migrate.batch.plan.target_layout import segments_of
from migrate.batch.source.source import is_another_system, source_system, target_system
from migrate.model.plan import Plan
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.spec.spec import Spec
from migrate.stores.files import write_synced
from migrate.systems.crossing import translated
from migrate.systems.families import families_to_carry


def new_positions(spec: Spec, stated: ChangelogOffsets, directories: Sequence[Path]) -> ChangelogOffsets:
    """The positions for the new store's side files; `stated`: those in the old store's.

    `directories`: the old store's RocksDB directories, or their snapshots, the newest first.
    """
    source, target = spec.source_format, spec.target_format
    carried = families_to_carry(target, spec.target.version, source.metadata_families)
    positions = stated
    if set(carried) != set(source.metadata_families):
        within = source_system(spec).positions_within(directories)
        positions = ChangelogOffsets(
            lines=stated.lines or within.lines,
            own_file=within.own_file if stated.own_file is None else stated.own_file,
        )
    if not is_another_system(spec):
        return positions
    return ChangelogOffsets(lines=translated(positions.lines, source_system(spec), target_system(spec)))


def directories_newest_first(spec: Spec, partition: StorePartition, directories: dict[str, Path]) -> list[Path]:
    """The RocksDB directories of a store partition of the source, the newest segment first."""
    if not partition.has_segments:
        return list(directories.values())
    return [directories[segment.name] for segment in reversed(segments_of(spec, partition))]


def write_new_positions(spec: Spec, plan: Plan, application: Path) -> None:
    """Write the side files of a new state directory that is not in use yet; the caller syncs it."""
    source, target = source_system(spec), target_system(spec)
    for partition in plan.store_partitions:
        stated = source.positions(spec.source_path, partition)
        directories = directories_newest_first(spec, partition, partition.directories(spec.source_path))
        positions = new_positions(spec, stated, directories)
        new = plan.new_partition(partition)
        if positions == stated and new.task == partition.task:
            continue  # carried over with everything else
        named = spec.source_path.name
        for relative, text in target.with_positions(application, new, positions, application=named).items():
            if text is None:
                (application / relative).unlink(missing_ok=True)
            else:
                write_synced(application / relative, text.encode())
