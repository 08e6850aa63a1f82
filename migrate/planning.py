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
from migrate.plan_model import Chunk, DatabasePlan, Lane, Plan
from migrate.publishing import check_can_be_carried_over
from migrate.source import Source, check_default_is_empty, lanes, snapshot_directory
from migrate.spec import Spec
from migrate.stores.files import total_size
from migrate.stores.options_file import FamilyOptions, read_options
from migrate.stores.rocksdb import DEFAULT_FAMILY, Database, open_read_only
from migrate.stores.sst import SstFile, SstFormatError

SAMPLE_PLACES = 32
SAMPLE_RUN = 8
SAMPLE_SHARE = 0.01
SAMPLE_MIN_BYTES = 1 << 16
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


def check_clean(spec: Spec, conversion: Conversion, warnings: list[str]) -> None:
    """Raises RefusedError where the owner will replay its changelog into a store that the changelog no longer fits."""
    if warnings and conversion.changes_changelog and "unclean-source" not in spec.conversion.allow:
        raise RefusedError(
            f"the application did not stop cleanly, and would replay old records into the new store: {warnings[0]}",
            hint="start and stop the old application once, cleanly; or, if nothing will be replayed, say so: "
            '[conversion] allow = ["unclean-source"]',
        )


def changelog_note(conversion: Conversion) -> str:
    """What the operator must know about the changelog, in one sentence; said at every step."""
    if not conversion.source.has_changelog and not conversion.target.has_changelog:
        return "no changelog is involved"
    if conversion.changes_changelog:
        return "the changelog no longer matches the store (allowed by name): a restore brings the old records back"
    if "timestamp" in conversion.target.carries - conversion.source.carries:
        return (
            "the changelog holds the bare values and stays right; a store that is restored from it has the changelog's "
            f"timestamps, where this one has {conversion.default_timestamp_ms}"
        )
    return "the changelog holds the bare values and stays right: a restore gives the same records"


def check_target(spec: Spec, source: Source) -> None:
    """Raises RefusedError where the target's path or the work_dir cannot take what is coming."""
    target = spec.target_path
    if target is not None:
        if target.exists():
            raise RefusedError(f"[target] path {target} exists already", hint="name a path that does not exist yet")
        if target.is_relative_to(source.path) or source.path.is_relative_to(target):
            raise RefusedError(
                f"[target] path {target} and the source contain each other", hint="name a path beside the source"
            )
        check_can_be_carried_over(source.path)
    if "%" in str(spec.home):
        raise RefusedError(
            f"the path of work_dir {spec.home} has a % in it, which delta-rs takes for an escape",
            hint="choose another work_dir",
        )
    if spec.home.is_relative_to(source.path):
        raise RefusedError(
            f"work_dir {spec.home.parent} lies inside the application's state directory",
            hint="put it beside: a foreign directory in there can hide stores from the application",
        )
    parent = next(folder for folder in (spec.home, *spec.home.parents) if folder.exists())
    if not parent.is_dir():
        raise RefusedError(f"work_dir {spec.home}: {parent} is not a directory", hint="name another work_dir")
    if not os.access(parent, os.W_OK):
        raise RefusedError(
            f"cannot write to {parent}", hint="choose another work_dir, or run as the application's user"
        )


def check_space(spec: Spec, databases: tuple[DatabasePlan, ...], copied_bytes: int) -> None:
    """Raises RefusedError where the work_dir's disk, or the target's, is too small for what will be written there."""
    new_bytes = int(SPACE_MARGIN * sum(database.data_bytes for database in databases))
    _check_free(
        f"work_dir {spec.home}",
        spec.home,
        new_bytes + copied_bytes,
        hint="make space, or put work_dir on a larger disk of the same file system as the state directory",
    )
    if spec.target_path is None:
        return
    parent = next(folder for folder in spec.target_path.parents if folder.exists())
    disk = parent.stat().st_dev
    copied = new_bytes if disk != spec.home.stat().st_dev else 0
    if disk != spec.source_path.stat().st_dev:
        copied += total_size(path for path in spec.source_path.rglob("*") if path.is_file())
    hint = "make space, or let [target] path be on the file system of the state directory: SST files are linked there"
    _check_free(f"[target] path {spec.target_path}", parent, copied, hint=hint)


def _check_free(what: str, folder: Path, needed: int, *, hint: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise RefusedError(
            f"{what} has {free / 2**20:,.1f} MiB free, the new stores may need {needed / 2**20:,.1f} MiB", hint=hint
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
            if DEFAULT_FAMILY not in {lane.source for lane in found}:
                check_default_is_empty(directory, found[0])
            if conversion.target.column_families is None:
                found = _compressed_as_before(found, read_options(directory))
            plans.append(
                DatabasePlan(
                    store_partition=partition.id,
                    database=database,
                    lanes=found,
                    carried_families=tuple(f for f in families if f in conversion.target.metadata_families),
                    data_bytes=data_bytes,
                )
            )
    return tuple(plans)


def _compressed_as_before(lanes_: tuple[Lane, ...], options: dict[str, FamilyOptions]) -> tuple[Lane, ...]:
    return tuple(
        lane.model_copy(update={"compression": options[lane.source].compression}) if lane.source in options else lane
        for lane in lanes_
    )


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
    *,
    conversion: Conversion,
    revision: int,
) -> Plan:
    """Cut the snapshot into chunks, and try the conversion on a sample of each RocksDB directory."""
    partitions = {partition.id: partition for partition in source.partitions}
    chunks: list[Chunk] = []
    for database in databases:
        directory = snapshot_directory(spec.home, partitions[database.store_partition], database.database)
        with open_read_only(directory) as opened:
            cuts = cut(directory, opened.live_files(), spec.run.chunk_size)
            _check_sample(opened, database, conversion, [keys.start for keys in cuts.ranges])
        chunks += [
            Chunk(
                store_partition=database.store_partition,
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
        store_partitions=source.partitions,
        databases=databases,
        chunks=tuple(chunks),
    )


def _check_sample(opened: Database, database: DatabasePlan, conversion: Conversion, starts: list[bytes | None]) -> None:
    """Convert a few records from all over the key range, twice.

    Raises RefusedError where none of them is what the source's format says, or where the function does not give the
    same result twice.
    """
    converted = 0
    reasons: list[str] = []
    budget = max(SAMPLE_MIN_BYTES, int(SAMPLE_SHARE * database.data_bytes)) // len(database.lanes)
    for lane in database.lanes:
        left = budget
        for start in _spread(starts):
            if left <= 0:
                break
            batch = opened.sample(lane.source, start, SAMPLE_RUN, left)
            left -= batch.size
            for key, value in zip(batch.keys, batch.values, strict=True):
                try:
                    _check_pure(conversion, key, value)
                    converted += 1
                except EntryError as error:
                    reasons.append(f"{show_key(key)}: {error}")
    if reasons and not converted:
        raise RefusedError(
            f"none of {len(reasons)} sampled records of {database.store_partition} can be converted from "
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
    """Some of these, evenly spread, in an order in which the first few are spread as well."""
    step = max(1, len(bounds) // SAMPLE_PLACES)
    places = bounds[::step][:SAMPLE_PLACES]
    order = sorted(range(len(places)), key=lambda place: f"{place:08b}"[::-1])
    return [places[place] for place in order]
