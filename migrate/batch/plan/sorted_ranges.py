"""The chunks of a sorted plan: ranges of new keys, cut by a sample of converted records; and what is read for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.batch.chunk.sorting import OldRange, PlacedRecords, SortedStore, SortWork, Targets
from migrate.batch.plan.cut import cut
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.batch.stop import never_stop
from migrate.engine.split import OldPartition
from migrate.errors import RefusedError
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, DatabasePlan, KeyPlace, store_of
from migrate.spec.conversion import ref_of_store
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.partitioner import partitioner_ref
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.layout import database_files

if TYPE_CHECKING:
    from migrate.batch.chunk.table_rows import TableRows

DirectoryOf = Callable[[str, str], Path]
"""Of an old store partition and the name of a RocksDB directory."""
_SAMPLED_FOR_A_RANGE = 64
_LEAST_SAMPLED, _MOST_SAMPLED = 1 << 10, 1 << 17
"""Records of one RocksDB directory."""
_SAMPLED_BYTES = 64 << 20


def sort_work(
    spec: Spec,
    ref: ConversionRef,
    databases: Sequence[DatabasePlan],
    chunks: Iterable[Chunk],
    key_places: tuple[KeyPlace, ...] = (),
) -> SortWork:
    """How old records become new ones, and which range each belongs to. `ref`: the spec's conversion.

    `key_places`: of the store partitions whose new keys are checked.
    """
    return SortWork(
        stores=_stores(spec, ref, databases),
        targets=Targets(tuple(chunks)),
        partitioner=partitioner_ref(spec),
        fails_on_reject=spec.run.on_reject == "fail",
        max_dropped=spec.most_dropped,
        key_places=key_places,
    )


def _stores(spec: Spec, ref: ConversionRef, databases: Sequence[DatabasePlan]) -> dict[str, SortedStore]:
    shares = {each.store_partition: each.share for each in databases if each.share is not None}
    if not shares:
        return {"": SortedStore(ref)}
    found = {}
    for store in dict.fromkeys(map(store_of, shares)):
        mine = {share.number: each for each, share in shares.items() if store_of(each) == store}
        partitions = tuple(mine[number] for number in sorted(mine))
        found[store] = SortedStore(ref_of_store(spec, store, ref), shares[partitions[0]], partitions)
    return found


def old_ranges(databases: Iterable[DatabasePlan], directory_of: DirectoryOf, size: int) -> Iterator[OldRange]:
    """Ranges of about `size` bytes of every old RocksDB directory. Raises RefusedError for a store in upgrade mode."""
    seen = set()
    for each in databases:
        for source in each.sources:
            partition = OldPartition(source.number or 0, source.partition or each.store_partition)
            if (partition.id, source.database) in seen:
                continue
            seen.add((partition.id, source.database))
            _check_upgraded(partition, each)
            directory = directory_of(partition.id, source.database)
            files = ((file, b"") for file in database_files(directory).immutable if file.suffix == ".sst")
            cuts = cut(files, size)
            for keys, estimated_bytes in zip(cuts.ranges, cuts.sizes, strict=True):
                yield OldRange(
                    store="" if each.share is None else store_of(each.store_partition),
                    partition=partition,
                    database=each.database,
                    directory=str(directory),
                    mappings=each.mappings,
                    keys=keys,
                    estimated_bytes=estimated_bytes,
                )


def _check_upgraded(partition: OldPartition, plan: DatabasePlan) -> None:
    if older := [family for mapping in plan.mappings for family in mapping.older]:
        raise RefusedError(
            f"{partition.id}: the store is being upgraded by its owner, and has records in {older[0]!r} yet",
            hint="migrate it without a change of keys first, which merges them; then change the keys",
        )


@dataclass(slots=True)
class RangeSample:
    """A sample of new keys, and how many bytes stand behind them, by the place that they belong to."""

    work: SortWork
    """Each of its ranges is a whole RocksDB directory."""
    _keys: dict[int, list[tuple[bytes, float]]] = field(default_factory=dict)

    def add(self, placed: Iterable[PlacedRecords], size: int) -> None:
        """Take sampled records, which stand for `size` bytes."""
        keys, numbers = list[bytes](), list[int]()
        for each in placed:
            keys += each.of.records.keys
            numbers += each.numbers.tolist()
        for key, number in zip(keys, numbers, strict=True):
            self._keys.setdefault(number, []).append((key, size / len(keys)))

    def chunks(self, chunk_size: int) -> Iterator[Chunk]:
        """Ranges of about `chunk_size` bytes each, that cover every key of each place (I3)."""
        for number, whole in enumerate(self.work.targets.chunks):
            weighted = sorted(self._keys.get(number, []))
            size = sum(weight for _, weight in weighted)
            bounds = [*_bounds(weighted, size, max(1, -(-int(size) // chunk_size)))]
            edges = [None, *bounds, None]
            for at, (start, end) in enumerate(pairwise(edges)):
                changes = {"number": at, "keys": KeyRange(start=start, end=end)}
                yield whole.model_copy(update=changes | {"estimated_bytes": int(size) // (len(bounds) + 1)})


def _bounds(weighted: Sequence[tuple[bytes, float]], size: float, ranges: int) -> Iterator[bytes]:
    passed, last = 0.0, b""
    made = 1
    for key, weight in weighted:
        if passed >= made * size / ranges and made < ranges and key > last:
            yield key
            made, last = made + 1, key
        passed += weight


def cut_new_keys(
    work_of: Callable[[Iterable[Chunk]], SortWork],
    databases: Sequence[DatabasePlan],
    directory_of: DirectoryOf,
    chunk_size: int,
) -> tuple[Chunk, ...]:
    """The chunks of a sorted plan, by a sample of every old RocksDB directory; `work_of`: the work with these ranges.

    Raises RefusedError for a store in upgrade mode, or an old key that is not where the partitioner puts it.
    """
    found = _no_sample(work_of, databases)
    for old in old_ranges(databases, directory_of, 1 << 62):
        ranges = -(-old.estimated_bytes // chunk_size)
        wanted = min(_MOST_SAMPLED, max(_LEAST_SAMPLED, _SAMPLED_FOR_A_RANGE * ranges))
        on_columns = found.work.stores[old.store].load().source.on_columns
        with open_read_only(Path(old.directory)) as opened:
            for family, mapping in enumerate(old.mappings):
                if mapping.source in opened.families:
                    sample = read_sample(opened, mapping.source, SampleSize(wanted, _SAMPLED_BYTES), on_columns)
                    size = old.estimated_bytes // len(old.mappings)
                    found.add(old.converted(found.work, family, sample.batches, never_stop), size)
    return tuple(found.chunks(chunk_size))


def cut_rows(
    work_of: Callable[[Iterable[Chunk]], SortWork],
    databases: Sequence[DatabasePlan],
    inputs: Sequence[TableRows],
    chunk_size: int,
) -> tuple[Chunk, ...]:
    """As `cut_new_keys`, by a sample of the rows of a table."""
    found = _no_sample(work_of, databases)
    wanted = max(_LEAST_SAMPLED, _MOST_SAMPLED // (len(inputs) or 1))
    for each in inputs:
        found.add(each.sample(found.work, wanted), each.size)
    return tuple(found.chunks(chunk_size))


def _no_sample(work_of: Callable[[Iterable[Chunk]], SortWork], databases: Sequence[DatabasePlan]) -> RangeSample:
    whole = work_of(
        Chunk(
            store_partition=each.store_partition, database=each.database, number=0, keys=KeyRange(), estimated_bytes=0
        )
        for each in databases
    )
    return RangeSample(whole.unlimited())
