"""Another number of store partitions: the new ones, and the old ones that each is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from formats import Conversion
from migrate.batch.plan.cut import cut
from migrate.batch.plan.planned_databases import Reader, plan_partition, united
from migrate.batch.plan.target_layout import new_partition
from migrate.batch.source.snapshot import snapshots_by_place
from migrate.batch.source.source import read_store, source_system
from migrate.errors import RefusedError
from migrate.model.plan import Chunk, DatabasePlan, Input, Share, store_of
from migrate.model.store_partition import StorePartition
from migrate.spec.conversion import conversion_ref, load_conversion
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.layout import database_files

DirectoriesOf = Callable[[StorePartition], dict[str, Path]]


def plan_shares(
    spec: Spec,
    olds: Sequence[StorePartition],
    directories_of: DirectoriesOf,
    conversion: Conversion,
    read: Reader = read_store,
    *,
    is_rekeyed: bool = False,
) -> tuple[DatabasePlan, ...]:
    """The RocksDB directories of the new store partitions. Raises RefusedError as `plan_partition`, and for old ones
    that are not numbered from 0.

    `is_rekeyed`: the partitioner is asked with new keys.
    """
    found: list[DatabasePlan] = []
    for store in dict.fromkeys(each.store for each in olds):
        mine = _by_number(spec, [each for each in olds if each.store == store])
        view, own = spec.of_store(store), _own(spec, store, conversion)
        planned = {n: [*plan_partition(view, old, directories_of(old), own, read)] for n, old in mine.items()}
        for share in _shares(spec, len(mine), is_rekeyed=is_rekeyed):
            of_share = [(n, each) for n in share.sources for each in planned[n]]
            name = f"{source_system(spec).layout.sibling(mine[0], share.number)}/{store}"
            for database in dict.fromkeys(each.database for _, each in of_share):
                found.append(_united(name, share, [(n, each) for n, each in of_share if each.database == database]))
    return tuple(found)


def _own(spec: Spec, store: str, conversion: Conversion) -> Conversion:
    """The conversion of one store: `conversion`, the spec's, unless the store keeps a format of its own."""
    view = spec.of_store(store)
    is_moved = any(each.name == store for each in spec.source.moved_stores)
    return load_conversion(conversion_ref(view)) if is_moved else conversion


def _by_number(spec: Spec, olds: Sequence[StorePartition]) -> dict[int, StorePartition]:
    layout = source_system(spec).layout
    found = {number: each for each in olds if (number := layout.number(each)) is not None}
    if sorted(found) != list(range(len(olds))):
        there = ", ".join(each.task for each in olds)
        raise RefusedError(
            f"[target] partitions needs every old task of the store {olds[0].store!r}, numbered from 0, and there are "
            f"{there}",
            hint="bring the task directories of all hosts to one volume, under one application's directory",
        )
    return dict(sorted(found.items()))


def _shares(spec: Spec, old: int, *, is_rekeyed: bool = False) -> Iterator[Share]:
    new = spec.target.partitions
    assert new is not None
    like = Share(partitioner=spec.partitioner, old=old, new=new, number=0, is_rekeyed=is_rekeyed)
    return (like.model_copy(update={"number": number}) for number in range(new))


def _united(name: str, share: Share, found: Sequence[tuple[int, DatabasePlan]]) -> DatabasePlan:
    """One RocksDB directory of a new store partition, from those of the same name that old ones would have."""
    mappings = united([each.mappings for _, each in found])
    if older := [family for each in mappings for family in each.older]:
        raise RefusedError(
            f"{name}: the store is being upgraded by its owner, and has records in {older[0]!r} yet",
            hint="migrate it under its old number of partitions first, which merges them; then change the number",
        )
    inputs = (
        source.model_copy(update={"partition": each.store_partition, "number": number})
        for number, each in found
        for source in each.inputs or (Input(database=each.database),)
    )
    return DatabasePlan(
        store_partition=name,
        database=found[0][1].database,
        mappings=mappings,
        carried_families=(),
        data_bytes=sum(each.data_bytes for _, each in found) // len(share.siblings),
        inputs=tuple(inputs),
        share=share,
    )


def new_partitions(
    spec: Spec, olds: Sequence[StorePartition], databases: Sequence[DatabasePlan]
) -> tuple[StorePartition, ...]:
    """The new store partitions; one without any segment, too."""
    system, found = source_system(spec), []
    for store in dict.fromkeys(each.store for each in olds):
        mine, view = [each for each in olds if each.store == store], spec.of_store(store)
        for share in _shares(spec, len(mine)):
            task = system.layout.sibling(mine[0], share.number)
            place = system.place(task, store, is_segmented=view.source_format.is_segmented)
            like = mine[0].model_copy(update={"id": f"{task}/{store}", "task": task, "path": place})
            found.append(new_partition(view, like, databases))
    return tuple(found)


def of_old_partitions(databases: Sequence[DatabasePlan]) -> tuple[DatabasePlan, ...]:
    """The RocksDB directories that are read, as if each became one: for samples."""
    found = {}
    for each in databases:
        for source in each.inputs if each.share is not None else ():
            changes = {"store_partition": source.partition, "inputs": (Input(database=source.database),), "share": None}
            found[source.place] = each.model_copy(update=changes)
    return tuple(found.values()) or tuple(databases)


def cut_shares(
    home: Path, olds: Sequence[StorePartition], databases: Sequence[DatabasePlan], chunk_size: int
) -> Iterator[Chunk]:
    """The chunks of new store partitions; those that are made from the same old ones are cut at the same keys."""
    known: dict[tuple[Input, ...], list[Chunk]] = {}
    for each in databases:
        if each.inputs not in known:
            mine = [old for old in olds if old.store == store_of(each.store_partition)]
            directories = snapshots_by_place(home, mine)
            files = (file for source in each.inputs for file in database_files(directories[source.place]).immutable)
            cuts = cut(((file, b"") for file in files if file.suffix == ".sst"), chunk_size)
            known[each.inputs] = [
                Chunk(store_partition="", database=each.database, number=number, keys=keys, estimated_bytes=size)
                for number, (keys, size) in enumerate(zip(cuts.ranges, cuts.sizes, strict=True))
            ]
        assert each.share is not None
        for chunk in known[each.inputs]:
            size = chunk.estimated_bytes // len(each.share.siblings)
            yield chunk.model_copy(update={"store_partition": each.store_partition, "estimated_bytes": size})
