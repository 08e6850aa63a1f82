"""From a spec to a plan: everything is checked here, before anything is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from formats import Conversion, EntryError
from migrate.chunking import cut
from migrate.errors import RefusedError
from migrate.identity import migration_id
from migrate.keyrange import show_key
from migrate.plan_model import Chunk, DatabasePlan, Plan
from migrate.source import Source, check_default_is_empty, lanes, snapshot_directory
from migrate.spec import Spec
from migrate.stores.options_file import read_options
from migrate.stores.rocksdb import ReadOnlyDatabase, open_read_only
from migrate.stores.sst import SstFile, SstFormatError

SAMPLE_PLACES = 32
SAMPLE_RUN = 8
SPACE_MARGIN = 1.2


def check_conversion(spec: Spec, conversion: Conversion) -> None:
    """Raises RefusedError for a loss or a risk that the spec does not allow by name."""
    allowed = spec.conversion.allow
    for loss in conversion.losses:
        if loss not in allowed:
            raise RefusedError(
                f"{spec.target.format} cannot hold the {loss.removeprefix('loss:')} that {spec.source.format} holds",
                hint=f'if that may be lost, say so: [conversion] allow = ["{loss}"]',
            )
    if conversion.changes_changelog and "changelog" not in allowed:
        raise RefusedError(
            "the changelog topic would still hold records of the old form: the next rebalance or restore would put "
            "them back into the new store, and the application would misread them",
            hint='rewrite the changelog too, or rename the store; then say so: [conversion] allow = ["changelog"]',
        )


def changelog_note(conversion: Conversion) -> str:
    """What the operator must know about the changelog, in one sentence; said at every step."""
    if not conversion.source.has_changelog and not conversion.target.has_changelog:
        return "no changelog is involved"
    if conversion.changes_changelog:
        return "the changelog no longer matches the store (allowed by name): a restore brings the old records back"
    return "the changelog holds the bare values and stays right: a restore gives the same records"


def check_target(spec: Spec, source: Source) -> None:
    """Raises RefusedError where the target's path or the work_dir cannot take what is coming."""
    target = spec.target_path
    if target is not None:
        if target.exists():
            raise RefusedError(f"[target] path {target} exists already", hint="name a path that does not exist yet")
        if target.is_relative_to(source.path) or source.path.is_relative_to(target):
            raise RefusedError(f"[target] path {target} and the source contain each other", hint="name another path")
    if spec.home.is_relative_to(source.path):
        raise RefusedError(
            f"work_dir {spec.home.parent} lies inside the application's state directory",
            hint="put it beside: a foreign directory in there can hide stores from the application",
        )
    parent = next(folder for folder in (spec.home, *spec.home.parents) if folder.exists())
    if not os.access(parent, os.W_OK):
        raise RefusedError(
            f"cannot write to {parent}", hint="choose another work_dir, or run as the application's user"
        )


def check_space(spec: Spec, databases: tuple[DatabasePlan, ...], copied_bytes: int) -> None:
    """Raises RefusedError where the work_dir's disk is too small for the new stores."""
    needed = int(SPACE_MARGIN * sum(database.data_bytes for database in databases)) + copied_bytes
    free = shutil.disk_usage(spec.home).free
    if free < needed:
        raise RefusedError(
            f"work_dir {spec.home} has {free / 2**20:,.0f} MiB free, the new stores may need {needed / 2**20:,.0f} MiB",
            hint="make space, or put work_dir on a larger disk of the same file system as the state directory",
        )


def plan_databases(source: Source, conversion: Conversion) -> tuple[DatabasePlan, ...]:
    """Check every RocksDB directory of the source: families, formats, sizes."""
    plans = []
    for partition in source.partitions:
        for database, directory in partition.directories(source.path).items():
            with open_read_only(directory) as opened:
                found = lanes(opened.families, source.format, conversion.target, directory)
                data_bytes = sum(_data_bytes(directory / file.name, file.size) for file in opened.live_files())
                families = opened.families
            for lane in found:
                check_default_is_empty(directory, lane)
            options = read_options(directory)
            raw = conversion.target.column_families is None and found[0].source in options
            plans.append(
                DatabasePlan(
                    partition=partition.id,
                    database=database,
                    lanes=found,
                    carried_families=tuple(f for f in families if f in conversion.target.metadata_families),
                    compression=options[found[0].source].compression if raw else "kNoCompression",
                    data_bytes=data_bytes,
                )
            )
    return tuple(plans)


def _data_bytes(path: Path, size: int) -> int:
    try:
        with SstFile(path) as file:
            return max(file.properties().raw_bytes, size)
    except SstFormatError:
        return size


def make_plan(
    spec: Spec,
    source: Source,
    identity: dict[str, str],
    databases: tuple[DatabasePlan, ...],
    conversion: Conversion,
    revision: int,
) -> Plan:
    """Cut the snapshot into chunks, and try the conversion on a sample of each RocksDB directory."""
    partitions = {partition.id: partition for partition in source.partitions}
    chunks: list[Chunk] = []
    for database in databases:
        directory = snapshot_directory(spec.home, partitions[database.partition], database.database)
        with open_read_only(directory) as opened:
            cuts = cut(directory, opened.live_files(), spec.run.chunk_size)
            _check_sample(opened, database, conversion, [keys.start for keys in cuts.ranges])
        chunks += [
            Chunk(
                partition=database.partition,
                database=database.database,
                number=number,
                keys=keys,
                estimated_bytes=size,
            )
            for number, (keys, size) in enumerate(zip(cuts.ranges, cuts.sizes, strict=True))
        ]
    return Plan(
        migration_id=migration_id(identity),
        revision=revision,
        identity=identity,
        chunk_size=spec.run.chunk_size,
        program=None if conversion.program is None else str(conversion.program),
        warnings=tuple(source.warnings()),
        partitions=source.partitions,
        databases=databases,
        chunks=tuple(chunks),
    )


def _check_sample(
    opened: ReadOnlyDatabase, database: DatabasePlan, conversion: Conversion, starts: list[bytes | None]
) -> None:
    """Convert a few records from all over the key range, twice.

    Raises RefusedError where none of them is what the source's format says, or where the function does not give the same
    result twice.
    """
    converted = 0
    reasons: list[str] = []
    for lane in database.lanes:
        for start in _spread(starts):
            batch = opened.sample(lane.source, start, SAMPLE_RUN)
            for key, value in zip(batch.keys, batch.values, strict=True):
                try:
                    _check_pure(conversion, key, value)
                    converted += 1
                except EntryError as error:
                    reasons.append(f"{show_key(key)}: {error}")
    if reasons and not converted:
        raise RefusedError(
            f"none of {len(reasons)} sampled records of {opened.directory} can be converted from "
            f"{conversion.source.id} to {conversion.target.id}; the first one, {reasons[0]}",
            hint="is [source] format the format that the store has? does the function fit its records?",
        )


def _check_pure(conversion: Conversion, key: bytes, value: bytes) -> None:
    first, second = conversion.convert(key, value), conversion.convert(key, value)
    if first != second:
        raise RefusedError(
            f"the function is not pure: it gave two results for the key {show_key(key)}",
            hint="a chunk may be converted again at any time: no clock, no random numbers, no state between records",
        )


def _spread(bounds: list[bytes | None]) -> list[bytes | None]:
    step = max(1, len(bounds) // SAMPLE_PLACES)
    return bounds[::step][:SAMPLE_PLACES]
