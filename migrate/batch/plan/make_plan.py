"""Making a plan from a snapshot: new RocksDB directories, even chunks, the sample conversion, warnings of risks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from formats import Conversion, Format
from migrate.batch.identity import migration_id
from migrate.batch.plan.cut import cut, slot_share
from migrate.batch.plan.sample import KnownTimes, SampleError, check_sample, check_segments, with_places
from migrate.batch.plan.target_layout import NewSegment, new_partition, new_segments, segments_of, share
from migrate.batch.source.snapshot import snapshot_directories
from migrate.batch.source.source import Reading, Source, is_another_system, read_store, source_system
from migrate.engine.chunk_source import inputs_of, open_inputs
from migrate.errors import RefusedError
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping, Input, KeyPlace, Plan
from migrate.model.store_partition import StorePartition
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import checked_code, tracking_imports
from migrate.spec.spec import Spec
from migrate.stores.carry_over import left_out
from migrate.stores.files import total_size
from migrate.stores.rocksdb.database import Database, StoreContent, open_read_only
from migrate.stores.rocksdb.layout import is_rocksdb, log_files
from migrate.stores.rocksdb.live import read_only_family
from migrate.stores.rocksdb.options_file import read_options
from migrate.stores.rocksdb.scan import OnColumns, refuse_columns
from migrate.stores.rocksdb.sst import SstFormatError, read_ahead, table_properties
from migrate.stores.rocksdb.unreadable import check_table_readable
from migrate.systems.families import families_to_carry, family_mappings


def plan_databases(
    spec: Spec, source: Source, conversion: Conversion, read: Callable[[Path], Reading] = read_store
) -> tuple[DatabasePlan, ...]:
    """The new RocksDB directories, from the families and sizes of the source's. Raises RefusedError."""
    return tuple(
        plan
        for partition in source.partitions
        for plan in plan_partition(spec, partition, source.directories(partition), conversion, read)
    )


@dataclass(frozen=True, slots=True)
class _Directory:
    """The column families and size of a RocksDB directory of the source."""

    families: tuple[str, ...]
    mappings: tuple[FamilyMapping, ...]
    data_bytes: int


def plan_partition(
    spec: Spec,
    partition: StorePartition,
    directories: dict[str, Path],
    conversion: Conversion,
    read: Callable[[Path], Reading] = read_store,
) -> Iterator[DatabasePlan]:
    """The new RocksDB directories of a store partition; `directories`: the old ones by name. Raises RefusedError."""
    new_partition(spec, partition, ())  # raises for a task that the other system cannot name
    known = {
        database: _facts_of(directory, read(directory).content, conversion)
        for database, directory in directories.items()
    }
    for new in new_segments(spec, partition, directories):
        inputs = [known[each.database] for each in new.inputs]
        carried_from = [each.name for each in reversed(segments_of(spec, partition))] if new.times else []
        carriers = [known[name] for name in carried_from] or inputs
        families = list(dict.fromkeys(family for each in carriers for family in each.families))
        is_itself = new.inputs == (Input(database=new.name),)
        yield DatabasePlan(
            store_partition=partition.id,
            database=new.name,
            mappings=_united([each.mappings for each in inputs]),
            carried_families=_carried(spec, conversion, families),
            data_bytes=_bytes_of(new, inputs),
            inputs=() if is_itself else new.inputs,
            times=new.times,
            carried_from=tuple(carried_from),
            is_kept=new.is_kept,
        )


def _carried(spec: Spec, conversion: Conversion, families: Sequence[str]) -> tuple[str, ...]:
    """None where the changelog is rewritten: the families state positions in it as it was."""
    if spec.target.store_names or (spec.changelog is not None and conversion.changes_changelog):
        return ()
    return families_to_carry(conversion.target, spec.target.version, families)


def _bytes_of(new: NewSegment, read: list[_Directory]) -> int:
    """Its part of its inputs' bytes, if records are spread evenly over time."""
    return sum(int(each.data_bytes * share(source, new.times)) for source, each in zip(new.inputs, read, strict=True))


def _facts_of(directory: Path, content: StoreContent, conversion: Conversion) -> _Directory:
    mappings = family_mappings(content.families, conversion.source, conversion.target, directory)
    older = pre_upgrade_families(directory, content.families, conversion.source)
    keeps_compression = conversion.target.column_families is None  # a format of any bytes
    old = read_options(directory) if keeps_compression else {}
    kept = {family: options.compression for family, options in old.items()}
    found = (
        each.model_copy(update={"older": older, "compression": kept.get(each.source, each.compression)})
        for each in mappings
    )
    return _Directory(content.families, tuple(found), record_bytes(directory, content))


def _united(mappings: list[tuple[FamilyMapping, ...]]) -> tuple[FamilyMapping, ...]:
    """The mappings of several directories of one format, which differ in their pre-upgrade families only."""
    united = []
    for same in zip(*mappings, strict=True):
        older = tuple(dict.fromkeys(family for mapping in same for family in mapping.older))
        united.append(same[0].model_copy(update={"older": older}))
    return tuple(united)


def pre_upgrade_families(directory: Path, families: tuple[str, ...], source: Format) -> tuple[str, ...]:
    """The pre-upgrade families that still have records. Raises RefusedError for two: their owner refuses them too."""
    older = [family.name for family in source.older_families if family.name in families]
    if not older:
        return ()
    with open_read_only(directory) as opened:
        filled = tuple(name for name in older if not _is_empty(opened, name))
    if len(filled) > 1:
        raise RefusedError(
            f"{directory} has records in {' and '.join(map(repr, filled))}: two upgrades of it are unfinished, "
            "and its owner opens no such store",
            hint="name the one that holds the store's records in [source] format, on a copy that has no other; or let "
            "the owner restore the store from its changelog",
        )
    return filled


def _is_empty(opened: Database, family: str) -> bool:
    with closing(read_only_family(opened, family)) as records:
        scan = records.scan()
        try:
            return not scan.pull(1)
        finally:
            scan.close()


def record_bytes(directory: Path, content: StoreContent) -> int:
    """The size of keys and values before compression, from the files' own properties."""
    read_ahead(directory, [name for name, _ in content.files])
    logged = total_size(directory / name for name in log_files(directory))
    return sum(_data_bytes(directory / name, size) for name, size in content.files) + logged


def _data_bytes(path: Path, size: int) -> int:
    try:
        properties = table_properties(path)
        check_table_readable(path, properties)
        return max(properties.raw_bytes, size)
    except (SstFormatError, FileNotFoundError):  # the running owner may have removed it meanwhile
        return size


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
    jobs: int = 1,
) -> Plan:
    """Cut the snapshot into chunks, and convert a sample of each RocksDB directory.

    `jobs`: how many processes of this machine work, each of which gets some of the chunks.
    `times_of`: the times for the sample of a store partition, where the function sees those of the changelog.
    """
    partitions = {partition.id: partition for partition in source.partitions}
    chunks: list[Chunk] = []
    refused: dict[str, SampleError] = {}
    chunk_size: int = spec.run.chunk_size
    if jobs > 1:  # or some processes would get no chunk
        chunk_size = min(chunk_size, slot_share(sum(each.data_bytes for each in databases), jobs))
    on_columns: OnColumns | None = conversion.source.on_columns
    if on_columns is not None and spec.run.on_reject == "fail":
        on_columns = refuse_columns  # now, and not where the run meets it
    for database in databases:
        directories = snapshot_directories(spec.home, partitions[database.store_partition])
        with open_inputs(inputs_of(database, directories), conversion.source) as opened:
            chunks += cut_database(database, opened.databases, chunk_size)
            try:
                check_segments(opened.databases, database, source)
                with tracking_imports(ref):
                    times = None if times_of is None else times_of(database.store_partition)
                    check_sample(
                        opened.databases, database, conversion, spec.conversion.allow, times, on_columns=on_columns
                    )
            except SampleError as error:
                refused.setdefault(database.store_partition, error)
    if refused:
        raise with_places(refused, len(source.partitions))
    checked_code(ref)
    program = conversion.program
    return Plan(
        migration_id=migration_id(identity),
        revision=revision,
        identity=identity,
        chunk_size=spec.run.chunk_size,
        program=None if program is None else str(program),
        program_fingerprint=None if program is None else program.fingerprint,
        warnings=(*source.warnings(), *spec_warnings(spec, ref)),
        store_partitions=source.partitions,
        databases=databases,
        chunks=tuple(chunks),
        new_partitions=tuple(new_partition(spec, partition, databases) for partition in source.partitions),
        key_places=key_places,
    )


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
