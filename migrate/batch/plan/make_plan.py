"""Making a plan from a snapshot: new RocksDB directories, even chunks, the sample conversion, warnings of risks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from formats import Conversion
from migrate.batch.identity import migration_id
from migrate.batch.plan.cut import cut, slot_share
from migrate.batch.plan.planned_databases import Reader, plan_partition
from migrate.batch.plan.repartition import cut_shares, new_partitions, of_old_partitions, plan_shares
from migrate.batch.plan.sample import KnownTimes, SampleError, check_sample, check_segments, with_places
from migrate.batch.plan.sorted_ranges import cut_new_keys, cut_rows, sort_work
from migrate.batch.plan.target_layout import new_partition
from migrate.batch.source.restored_source import import_record
from migrate.batch.source.snapshot import snapshot_directories
from migrate.batch.source.source import Source, is_another_system, read_store, source_system
from migrate.engine.chunk_source import inputs_of, open_inputs
from migrate.model.plan import Chunk, DatabasePlan, KeyPlace, Plan
from migrate.model.store_partition import StorePartition
from migrate.spec.conversion import load_conversion, ref_of_store
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import checked_code, tracking_imports
from migrate.spec.spec import Spec
from migrate.stores.carry_over import left_out
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.stores.rocksdb.scan import OnColumns, refuse_columns
from migrate.systems.families import families_to_carry

_SORTING_SLOTS = 8
"""How many tasks sort at once, in all but large clusters."""


def plan_databases(
    spec: Spec, source: Source, conversion: Conversion, read: Reader = read_store, *, is_rekeyed: bool = False
) -> tuple[DatabasePlan, ...]:
    """The new RocksDB directories, from the families and sizes of the source's. Raises RefusedError.

    `is_rekeyed`: new keys decide which of the new store partitions has a record.
    """
    if spec.target.partitions is not None:
        shares = plan_shares(spec, source.partitions, source.directories, conversion, read, is_rekeyed=is_rekeyed)
        record = import_record(spec)
        if record is None:
            return shares
        size = record.size // (len(shares) or 1)  # the old store is empty: the rows are as large as the new one
        return tuple(each.model_copy(update={"data_bytes": size}) for each in shares)
    return tuple(
        plan
        for partition in source.partitions
        for plan in plan_partition(spec, partition, source.directories(partition), conversion, read)
    )


def make_plan(
    spec: Spec,
    source: Source,
    identity: dict[str, str],
    databases: tuple[DatabasePlan, ...],
    *,
    conversion: Conversion,
    ref: ConversionRef,
    revision: int,
    times_of: Callable[[str], KnownTimes] | None = None,
    key_places: tuple[KeyPlace, ...] = (),
    is_sorted: bool = False,
    jobs: int = 1,
) -> Plan:
    """Cut the snapshot into chunks, and convert a sample of each RocksDB directory.

    `jobs`: how many processes of this machine work, each of which gets some of the chunks.
    `times_of`: the times for the sample of a store partition, where the function sees those of the changelog.
    """
    chunk_size: int = spec.run.chunk_size
    if jobs > 1:  # or some processes would get no chunk
        chunk_size = min(chunk_size, slot_share(sum(each.data_bytes for each in databases), jobs))
    chunks = _sampled_chunks(spec, source, databases, chunk_size, ref, times_of)
    if is_sorted:
        chunks = [*_sorted_chunks(spec, source, databases, chunk_size, ref)]
    checked_code(ref)
    program = conversion.program
    store_partitions, others = _partitions(spec, source, databases)
    return Plan(
        migration_id=migration_id(identity),
        revision=revision,
        identity=identity,
        chunk_size=spec.run.chunk_size,
        program=None if program is None else str(program),
        program_fingerprint=None if program is None else program.fingerprint,
        warnings=(*(() if spec.source.rows else source.warnings()), *spec_warnings(spec, ref)),
        store_partitions=store_partitions,
        databases=databases,
        chunks=tuple(chunks),
        new_partitions=others if spec.target.partitions is None else (),
        key_places=key_places,
        is_sorted=is_sorted,
        old_partitions=() if spec.target.partitions is None else others,
    )


def _sampled_chunks(  # noqa: PLR0917 - each is what the plan is made of
    spec: Spec,
    source: Source,
    databases: Sequence[DatabasePlan],
    chunk_size: int,
    ref: ConversionRef,
    times_of: Callable[[str], KnownTimes] | None,
) -> list[Chunk]:
    """The chunks, once a sample of each old RocksDB directory could be converted. Raises RefusedError."""
    partitions = {partition.id: partition for partition in source.partitions}
    chunks: list[Chunk] = []
    refused: dict[str, SampleError] = {}
    for database in of_old_partitions(databases):
        partition = partitions[database.store_partition]
        own = ref_of_store(spec, partition.store, ref)
        conversion = load_conversion(own)
        on_columns: OnColumns | None = conversion.source.on_columns
        if on_columns is not None and spec.run.on_reject == "fail":
            on_columns = refuse_columns  # now, and not where the run meets it
        inputs = inputs_of(database, snapshot_directories(spec.home, partition))
        with open_inputs(inputs, conversion.source) as opened:
            if spec.target.partitions is None:
                chunks += cut_database(database, opened.databases, chunk_size)
            try:
                check_segments(opened.databases, database, source, conversion.source)
                with tracking_imports(own):
                    times = None if times_of is None else times_of(database.store_partition)
                    check_sample(
                        opened.databases, database, conversion, spec.conversion.allow, times, on_columns=on_columns
                    )
            except SampleError as error:
                refused.setdefault(database.store_partition, error)
    if refused:
        raise with_places(refused, len(source.partitions))
    if spec.target.partitions is not None:
        chunks += cut_shares(spec.home, source.partitions, databases, chunk_size)
    return chunks


def _sorted_chunks(
    spec: Spec, source: Source, databases: Sequence[DatabasePlan], chunk_size: int, ref: ConversionRef
) -> tuple[Chunk, ...]:
    """Ranges of new keys, so many that as many slots as most machines have get some."""
    work_of = partial(sort_work, spec, ref, databases)
    if spec.source.rows:
        from migrate.batch.plan.row_table import table_inputs  # loads pyarrow

        inputs = table_inputs(spec)
        size = min(chunk_size, slot_share(sum(each.size for each in inputs), _SORTING_SLOTS))
        return cut_rows(work_of, databases, inputs, size)
    olds = {each.id: each for each in source.partitions}
    directory_of = lambda old, database: snapshot_directories(spec.home, olds[old])[database]  # noqa: E731
    size = min(chunk_size, slot_share(sum(each.data_bytes for each in databases), _SORTING_SLOTS))
    with tracking_imports(ref):
        return cut_new_keys(work_of, databases, directory_of, size)


def _partitions(
    spec: Spec, source: Source, databases: Sequence[DatabasePlan]
) -> tuple[tuple[StorePartition, ...], tuple[StorePartition, ...]]:
    """The plan's store partitions, and their new ones; with another number, the new ones and the old ones."""
    if spec.target.partitions is not None:
        return new_partitions(spec, source.partitions, databases), source.partitions
    return source.partitions, tuple(new_partition(spec, partition, databases) for partition in source.partitions)


def cut_database(plan: DatabasePlan, opened: Sequence[Database], chunk_size: int) -> list[Chunk]:
    """The chunks of one new RocksDB directory, in key order; `opened`: its inputs."""
    cuts = cut(((each.directory / file.name, file.last_key) for each in opened for file in each.live_files), chunk_size)
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


def spec_warnings(spec: Spec, ref: ConversionRef) -> list[str]:
    """Warnings, a sentence each, that do not keep a run from starting."""
    source, target = spec.source_format, spec.target_format
    found = [
        f"{store!r} has a name like {kind.name}, which is not to be converted: {kind.reason}"
        for store in spec.source.store_names
        if (kind := source_system(spec).likely_unsupported(store)) is not None
    ]
    found += target.warnings_from(source)
    carried = families_to_carry(target, spec.target.version, target.metadata_families)
    if source.system == target.system and len(carried) < len(target.metadata_families):
        found.append(
            f"version {spec.target.version} opens a task only where none of its stores has the column family "
            f"{target.metadata_families[0]!r}: migrate every store that the application has opened with a newer one"
        )
    if spec.has_segments and spec.source.retention_ms is None:
        found.append(
            "every segment keeps its records: the application must open the new store with the retention that the old "
            "one has; give retention_ms in [source] and [target] to change it"
        )
    found += _directory_warnings(spec)
    if ref.key is not None or ref.value is not None:
        from migrate.spec.serdes import payload_warnings

        found += payload_warnings(ref.key, ref.value, has_function=ref.function is not None)
    return found


def _directory_warnings(spec: Spec) -> list[str]:
    """Warnings about what the new state directory lacks of the old one."""
    if is_another_system(spec):
        left = _left_behind(spec)
        sentence = (
            f"stores that the spec does not name stay behind: {', '.join(left)}; the application finds the new "
            "directory without them, and without their changelog positions"
        )
        return [sentence] if left else []
    if spec.target_path is None or not spec.source_path.is_dir():
        return []
    return [
        f"{path} is {kind}: it is no state, and the new state directory goes without it"
        for path, kind in left_out(spec.source_path)
    ]


def _left_behind(spec: Spec) -> list[str]:
    """Stores that the spec does not name: another system's directory gets none of them."""
    path = spec.source_path
    found = source_system(spec).discovery.store_directories(path) if path.is_dir() else ()
    return sorted({each.store for each in found if is_rocksdb(each.path)} - {*spec.source.store_names})
