"""Comparing what lies around the records: a new store has the column families that its owner knows, and no other."""

from __future__ import annotations

from pathlib import Path

from migrate.assembling import carried_entries
from migrate.digest import RecordDigest
from migrate.mismatch import Mismatch
from migrate.plan_model import DatabasePlan
from migrate.stores.batch import Batch
from migrate.stores.rocksdb import DEFAULT_FAMILY, Database, open_read_only


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
            return _mismatch(plan, "", "column families", _names(expected), _names(actual))
        for family in sorted(expected - records):
            wanted = _digest_of(carried.get(family, []))
            if (found := _digest(new, family)) != wanted:
                return _mismatch(plan, family, "content", wanted, found)
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


def _names(families: set[str]) -> str:
    return ", ".join(sorted(families))


def _mismatch(plan: DatabasePlan, family: str, field: str, expected: str, actual: str) -> Mismatch:
    return Mismatch(
        kind="differing",
        store_partition=plan.store_partition,
        family=family,
        key=b"",
        field=field,
        expected=expected,
        actual=actual,
    )
