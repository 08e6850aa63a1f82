"""The RocksDB directories of a new store partition, planned from the families and sizes of the old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from formats import Conversion, Format
from migrate.batch.plan.target_layout import NewSegment, new_partition, new_segments, segments_of, share
from migrate.batch.source.source import Reading, read_store
from migrate.errors import RefusedError
from migrate.model.plan import DatabasePlan, FamilyMapping, Input
from migrate.model.store_partition import StorePartition
from migrate.spec.spec import Spec
from migrate.stores.files import total_size
from migrate.stores.rocksdb.database import Database, StoreContent, open_read_only
from migrate.stores.rocksdb.layout import log_files
from migrate.stores.rocksdb.live import read_only_family
from migrate.stores.rocksdb.options_file import read_options
from migrate.stores.rocksdb.sst import SstFormatError, read_ahead, table_properties
from migrate.stores.rocksdb.unreadable import check_table_readable
from migrate.systems.families import families_to_carry, family_mappings

Reader = Callable[[Path], Reading]


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
    read: Reader = read_store,
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
            mappings=united([each.mappings for each in inputs]),
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


def united(mappings: Sequence[tuple[FamilyMapping, ...]]) -> tuple[FamilyMapping, ...]:
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
