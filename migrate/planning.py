"""From a snapshot to a plan: what lies where, even chunks, and the conversion tried on a sample."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from formats import Conversion, EntryError
from migrate.chunking import cut
from migrate.identity import migration_id
from migrate.keyrange import show_key
from migrate.plan_model import Chunk, DatabasePlan, Lane, Plan
from migrate.sampling import SampleSize, read_sample
from migrate.snapshots import snapshot_directory
from migrate.source import Source, check_default_is_empty, lanes
from migrate.spec import Spec
from migrate.stores.layout import log_bytes
from migrate.stores.options_file import FamilyOptions, read_options
from migrate.stores.rocksdb import DEFAULT_FAMILY, Database, open_read_only
from migrate.stores.rocksdb_live import read_only_family
from migrate.stores.sst import SstFile, SstFormatError
from migrate.trying import convert_twice, none_converted

SAMPLE_RECORDS = 256
SAMPLE_SHARE = 0.01
SAMPLE_MIN_BYTES = 1 << 16


def plan_databases(source: Source, conversion: Conversion) -> tuple[DatabasePlan, ...]:
    """Check every RocksDB directory of the source: families, formats, sizes."""
    plans = []
    for partition in source.partitions:
        for database, directory in source.directories(partition).items():
            with open_read_only(directory) as opened:
                found = lanes(opened.families, source.format, conversion.target, directory)
                data_bytes = sum(_data_bytes(directory / file.name, file.size) for file in opened.live_files())
                data_bytes += log_bytes(directory)
                families = opened.families
                if DEFAULT_FAMILY not in {lane.source for lane in found}:
                    with closing(read_only_family(opened, DEFAULT_FAMILY)) as default:
                        check_default_is_empty(default, found[0].source, directory)
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
    except (SstFormatError, FileNotFoundError):  # its owner runs, and has removed it meanwhile
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
            chunks += cut_database(database, opened, spec.run.chunk_size)
            check_sample(opened, database, conversion)
    program = conversion.program
    return Plan(
        migration_id=migration_id(identity),
        revision=revision,
        identity=identity,
        chunk_size=spec.run.chunk_size,
        program=None if program is None else str(program),
        program_fingerprint=None if program is None else program.fingerprint,
        warnings=tuple(source.warnings()),
        store_partitions=source.partitions,
        databases=databases,
        chunks=tuple(chunks),
    )


def cut_database(plan: DatabasePlan, opened: Database, chunk_size: int) -> list[Chunk]:
    """The chunks of one RocksDB directory, in key order."""
    cuts = cut(opened.directory, opened.live_files(), chunk_size)
    return [
        Chunk(
            store_partition=plan.store_partition,
            database=plan.database,
            number=number,
            keys=keys,
            estimated_bytes=size,
        )
        for number, (keys, size) in enumerate(zip(cuts.ranges, cuts.sizes, strict=True))
    ]


def check_sample(opened: Database, database: DatabasePlan, conversion: Conversion) -> None:
    """Convert a few records from all over the key range, twice.

    Raises RefusedError where none of them is what the source's format says, or where the function does not give the
    same result twice.
    """
    converted = 0
    reasons: list[str] = []
    budget = max(SAMPLE_MIN_BYTES, int(SAMPLE_SHARE * database.data_bytes)) // len(database.lanes)
    for lane in database.lanes:
        for batch in read_sample(opened, lane.source, SampleSize(SAMPLE_RECORDS, budget)).batches:
            for key, value in zip(batch.keys, batch.values, strict=True):
                try:
                    convert_twice(conversion, key, value)
                    converted += 1
                except EntryError as error:
                    reasons.append(f"{show_key(key)}: {error}")
    if reasons and not converted:
        raise none_converted(database.store_partition, len(reasons), reasons[0], conversion)
