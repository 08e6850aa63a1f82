"""Damage made by hand in a new store: found, counted, and named by key and field."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from migrate.batch.chunk.compare_stores import CompareTask, DigestTask, compare_gaps, run_verify_task, target_ranges
from migrate.batch.chunk.rewrite_chunk import rewrite_chunk
from migrate.engine.chunk_source import Inputs
from migrate.errors import CorruptionError
from migrate.model.comparison import Mismatch, Verified, as_verified
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.model.receipt import Receipt
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.writing import TableOptions, create_database
from tests.shared.builders import chunk, receipt, rewrite_task, written
from tests.support import KEY_VALUE, TIMESTAMPED, flip_byte, make_store, numbered, open_store, raises, read_families

Mode = Literal["full", "digest"]
REF = ConversionRef(KEY_VALUE, TIMESTAMPED, default_timestamp_ms=7)
RECORDS = numbered(1000, prefix=b"k")
FAMILY = "keyValueWithTimestamp"
MAPPING = FamilyMapping(source="default", target=FAMILY)
BORDERS = (None, b"k00000300", b"k00000700", None)
TIMESTAMP = (7).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class Migrated:
    """An old store of three chunks, and the new one."""

    source: Path
    target: Path
    receipts: list[Receipt]

    def damage(self, do: Callable[[Rdict], None]) -> None:
        with open_store(self.target) as database:
            column = database.get_column_family(FAMILY)
            do(column)
            del column

    def verify(self, mode: Mode) -> list[Verified]:
        """Chunk by chunk; in full, range by range, and what lies between the ranges at the end."""
        common = ("db", ".", Inputs((str(self.source),)), MAPPING)
        target = str(self.target)
        if mode == "digest":
            parts = zip(self.receipts, target_ranges(self.receipts, 0), strict=True)
            return [
                run_verify_task(DigestTask(*common, one.keys, REF, target, one.written[0], keys)) for one, keys in parts
            ]
        compared = [
            run_verify_task(CompareTask(*common, KeyRange(start=start, end=end), REF, target))
            for start, end in pairwise(BORDERS)
        ]
        with open_read_only(self.target) as opened:
            ends = [each.ends for each in compared if each.ends is not None]
            return [
                *compared,
                *(as_verified(found, count) for count, found in compare_gaps(opened, "db", FAMILY, ends)),
            ]

    def only_mismatch(self, mode: Mode) -> Mismatch:
        found = self.verify(mode)
        assert sum(result.mismatches for result in found) == 1
        (mismatch,) = (mismatch for result in found for mismatch in result.first)
        assert mismatch.family == FAMILY
        return mismatch


@pytest.fixture
def migrated(tmp_path: Path) -> Migrated:
    source = make_store(tmp_path / "old", RECORDS)
    receipts = []
    for number, (start, end) in enumerate(pairwise(BORDERS)):
        task = rewrite_task(tmp_path, source, chunk(number, start, end), REF)
        receipts.append(rewrite_chunk(replace(task, mappings=(FamilyMapping(source="default", target=FAMILY),))))
    files = [tmp_path / str(one.written[0].file) for one in receipts]
    create_database(tmp_path / "new", {FAMILY: TableOptions()}, {FAMILY: files}, {})
    return Migrated(source, tmp_path / "new", receipts)


MODES = pytest.mark.parametrize("mode", ["full", "digest"])


@MODES
def test_what_was_migrated_well_is_well(migrated: Migrated, mode: Mode) -> None:
    found = migrated.verify(mode)
    assert [result.mismatches for result in found] == [0, 0, 0]
    assert [result.records for result in found] == [300, 400, 300]
    expected = {key: TIMESTAMP + value for key, value in RECORDS.items()}
    assert read_families(migrated.target)[FAMILY] == expected


KEYS = pytest.mark.parametrize(
    "key", [b"k00000000", b"k00000299", b"k00000300", b"k00000500", b"k00000700", b"k00000999"], ids=bytes.decode
)


@MODES
@KEYS
def test_a_missing_key(migrated: Migrated, mode: Mode, key: bytes) -> None:
    migrated.damage(lambda column: column.delete(key))
    mismatch = migrated.only_mismatch(mode)
    assert (mismatch.kind, mismatch.key, mismatch.field) == ("missing", key, "key")
    assert str(mismatch) == f"missing in the new store: db, column family '{FAMILY}', key \"{key.decode()}\""


@MODES
@KEYS
def test_a_differing_value(migrated: Migrated, mode: Mode, key: bytes) -> None:
    migrated.damage(lambda column: column.put(key, TIMESTAMP + b"other"))
    mismatch = migrated.only_mismatch(mode)
    assert (mismatch.kind, mismatch.key, mismatch.field, mismatch.actual) == ("differing", key, "value", '"other"')


@MODES
@KEYS
def test_a_differing_timestamp(migrated: Migrated, mode: Mode, key: bytes) -> None:
    migrated.damage(lambda column: column.put(key, (8).to_bytes(8, "big") + RECORDS[key]))
    mismatch = migrated.only_mismatch(mode)
    assert (mismatch.kind, mismatch.key, mismatch.field) == ("differing", key, "timestamp_ms")
    assert (mismatch.expected, mismatch.actual) == ("7", "8")
    assert "timestamp_ms should be 7, is 8" in str(mismatch)


@MODES
def test_a_value_that_the_format_cannot_read(migrated: Migrated, mode: Mode) -> None:
    migrated.damage(lambda column: column.put(b"k00000500", b"cut"))
    mismatch = migrated.only_mismatch(mode)
    assert (mismatch.kind, mismatch.field) == ("differing", "value")
    assert "3 bytes" in mismatch.actual


EXTRA = {
    "before the first": b"\x00",
    "inside a chunk": b"k00000500x",
    "at the end of a chunk": b"k00000299x",
    "between chunks": b"k00000299\xff\xff",
    "just before a border": b"k000002999999",
    "after the last": b"\xff\xff\xff\xff",
}


@MODES
@pytest.mark.parametrize("key", EXTRA.values(), ids=list(EXTRA))
def test_an_extra_key(migrated: Migrated, mode: Mode, key: bytes) -> None:
    migrated.damage(lambda column: column.put(key, TIMESTAMP))
    mismatch = migrated.only_mismatch(mode)
    assert (mismatch.kind, mismatch.key, mismatch.field) == ("extra", key, "key")
    assert str(mismatch).startswith("extra in the new store")


@MODES
def test_every_kind_is_counted_and_the_first_of_each_is_named(migrated: Migrated, mode: Mode) -> None:
    def do(column: Rdict) -> None:
        for number in (310, 320, 330):
            column.delete(b"k%08d" % number)
        for number in (311, 321):
            column.put(b"k%08d" % number, TIMESTAMP + b"x")
        column.put(b"k00000312x", TIMESTAMP)

    migrated.damage(do)
    first, second, third = migrated.verify(mode)
    assert (first.mismatches, third.mismatches) == (0, 0)
    assert (second.missing, second.differing, second.extra) == (3, 2, 1)
    keys = {mismatch.kind: mismatch.key for mismatch in second.first}
    assert keys == {"missing": b"k00000310", "differing": b"k00000311", "extra": b"k00000312x"}


@MODES
def test_a_lost_last_chunk(migrated: Migrated, mode: Mode) -> None:
    migrated.damage(lambda column: column.delete_range(b"k00000700", b"l"))
    assert [result.missing for result in migrated.verify(mode)] == [0, 0, 300]


@MODES
def test_damage_in_either_store_is_an_error_not_a_mismatch(migrated: Migrated, mode: Mode) -> None:
    for store in (migrated.target,) if mode == "digest" else (migrated.source, migrated.target):
        (largest,) = sorted(store.glob("*.sst"), key=lambda file: file.stat().st_size)[-1:]
        flip_byte(largest, 3000)
        raises(CorruptionError, "", migrated.verify, mode)
        flip_byte(largest, 3000)


def test_digest_mode_finds_a_receipt_that_lies(migrated: Migrated) -> None:
    lie = migrated.receipts[1].written[0].model_copy(update={"digest": "0-0-0"})
    migrated.receipts[1] = migrated.receipts[1].model_copy(update={"written": (lie,)})
    mismatch = migrated.only_mismatch("digest")
    assert (mismatch.field, mismatch.expected) == ("receipt", "0-0-0")


@given(firsts=st.lists(st.none() | st.integers(0, 200), min_size=1, max_size=8))
def test_target_ranges_tile_all_keys(firsts: list[int | None]) -> None:
    """Whatever chunks wrote something, every key belongs to one of them."""
    ordered = iter(sorted({first for first in firsts if first is not None}))
    starts = [None if first is None else next(ordered, None) for first in firsts]
    keys = [None if start is None else bytes([start]) for start in starts]
    receipts = [receipt(outputs=(written(int(first is not None), first=first),)) for first in keys]
    ranges = target_ranges(receipts, 0)
    assert len(ranges) == len(receipts)
    for key in (b"", *(bytes([value]) for value in range(256))):
        assert sum(part is not None and key in part for part in ranges) == 1
    for first, part in zip(keys, ranges, strict=True):
        assert first is None or (part is not None and first in part)


def test_a_store_that_became_empty_is_looked_at_as_a_whole() -> None:
    receipts = [receipt(outputs=(written(0),)) for _ in range(3)]
    assert target_ranges(receipts, 0) == [KeyRange(), None, None]
