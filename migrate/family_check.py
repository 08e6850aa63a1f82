"""Comparing what lies around the records: new stores have the RocksDB directories and the column families that they
should, and no other; and nothing of the old ones is left over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from formats import Format
from migrate.assembling import carried_entries
from migrate.digest import RecordDigest
from migrate.mismatch import Mismatch, differing
from migrate.plan_model import DatabasePlan, Plan
from migrate.stores.batch import Batch
from migrate.stores.rocksdb import DEFAULT_FAMILY, Database, family_names, open_read_only


def compare_directories(databases: Sequence[DatabasePlan], folders: dict[str, Path]) -> Iterator[Mismatch]:
    """RocksDB directories that a new store lacks, or has too many."""
    expected: defaultdict[str, set[str]] = defaultdict(set)
    for plan in databases:
        if plan.is_kept:
            expected[plan.store_partition].add(plan.database)
    for partition, folder in folders.items():
        if (actual := _databases_in(folder)) != expected[partition]:
            yield differing(partition, "RocksDB directories", _names(expected[partition]), _names(actual))


def left_over(plan: Plan, databases: Sequence[DatabasePlan], snapshot: Path, source: Format) -> Iterator[Mismatch]:
    """Old records that no new store is made of: of RocksDB directories or column families that nobody reads."""
    planned = {str(Path(each.id) / name) for each in plan.store_partitions for name in each.databases}
    if (actual := _databases_in(snapshot)) != planned:
        yield differing("the snapshot", "RocksDB directories", _names(planned), _names(actual))
        return
    read: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for database in databases:
        for each in database.sources:
            read[database.store_partition, each.database] |= {
                family for lane in database.lanes for family in (lane.source, *lane.older)
            }
    for partition in plan.store_partitions:
        for name, directory in partition.below(snapshot / partition.id).items():
            left = set(family_names(directory)) - read[partition.id, name] - {*source.metadata_families}
            if left:
                yield from _records_in(directory, partition.id, sorted(left))


def _records_in(directory: Path, partition: str, families: Iterable[str]) -> Iterator[Mismatch]:
    """The first key of each that has any."""
    with open_read_only(directory) as opened:
        for family in families:
            if keys := opened.sample(family, None, 1).keys:
                found = differing(partition, "key", "", "", family=family)
                yield found.model_copy(update={"kind": "missing", "key": keys[0]})


def _databases_in(folder: Path) -> set[str]:
    return {str(file.parent.relative_to(folder)) for file in folder.rglob("CURRENT")}


def compare_families(plan: DatabasePlan, sources: dict[str, Path], target: Path) -> Mismatch | None:
    """The first column family that is missing, extra, or does not hold what it should; None: all is well.

    One family too many, even empty, and Kafka Streams does not start; `default` exists always, and is empty unless
    records belong there; the owner's own families are carried as they were (I7). `sources`: by database.
    """
    records = {lane.target for lane in plan.lanes}
    expected = {DEFAULT_FAMILY, *records, *plan.carried_families}
    carried = carried_entries(plan, sources)
    with open_read_only(target) as new:
        if (actual := set(new.families)) != expected:
            return differing(plan.store_partition, "column families", _names(expected), _names(actual))
        for family in sorted(expected - records):
            wanted = _digest_of(carried.get(family, []))
            if (found := _digest(new, family)) != wanted:
                return differing(plan.store_partition, "content", wanted, found, family=family)
    return None


def _digest(database: Database, family: str) -> str:
    digest = RecordDigest()
    for batch in database.batches(family):
        digest.update(batch)
    return str(digest)


def _digest_of(entries: list[tuple[bytes, bytes]]) -> str:
    digest = RecordDigest()
    if entries:
        digest.update(Batch([key for key, _ in entries], [value for _, value in entries]))
    return str(digest)


def _names(found: Iterable[str]) -> str:
    return ", ".join(sorted(found)) or "none"
