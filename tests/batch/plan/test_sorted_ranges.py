"""Ranges of new keys: even, whatever the keys look like and wherever they belong, and stored with the plan."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from formats import Headers, StateRecord
from formats.registry import get_format
from migrate import InterruptedMigrationError
from migrate.batch.context import Context
from migrate.batch.home import load_plan
from migrate.batch.plan.sorted_ranges import _MOST_SAMPLED
from migrate.batch.run import run_with
from migrate.model.receipt import Receipt
from tests.batch.run.test_partitions import Family, make_application, spread
from tests.batch.run.test_sorted_keys import backwards, rekeyed
from tests.shared.imports import TEXT, TIME, import_here, import_spec, write_rows
from tests.sorting import sorting
from tests.support import raises, read_ledger

CHUNK = 16 << 10
NOISE = random.Random(9)
KEYS = [b"x" * 40 + b"%07d" % number if NOISE.random() < 0.9 else NOISE.randbytes(12) for number in range(6000)]
SKEWED = dict(sorted((key[::-1], NOISE.randbytes(60)) for key in KEYS))
"""Turned round, nine of ten keys begin alike."""
MOSTLY = """
import zlib

def of(key, many):
    hashed = zlib.crc32(key)
    return 0 if hashed % 10 < 6 else 1 + hashed // 10 % (many - 1)
"""
"""Six of ten keys belong to one store partition."""


def _receipts(home: Path) -> list[Receipt]:
    return [row.receipt for row in read_ledger(home) if row.step == "chunk"]


def _assert_even(receipts: list[Receipt]) -> None:
    assert sum(receipt.records_out for receipt in receipts) == len(SKEWED)
    assert len(receipts) > 15
    assert max(receipt.bytes_out for receipt in receipts) < 2 * CHUNK


def test_keys_that_begin_alike_are_cut_evenly(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(SKEWED, 2)})
    spec = rekeyed(tmp_path, app, 3, conversion={"function": backwards})
    run_with(sorting, Context(spec))
    _assert_even(_receipts(spec.home))


def test_values_with_headers_are_cut_as_others(tmp_path: Path) -> None:
    known = get_format("kafka-streams.headers-key-value")
    assert known.column_families is not None
    headers = Headers.of([("trace", b"1" * 16)])
    records = dict(known.encode(StateRecord(key, value, 5, headers)) for key, value in SKEWED.items())
    app = make_application(tmp_path / "app", {"orders": spread(records, 2)}, known.column_families[0])
    formats = {"source": {"format": known.id}, "target": {"format": known.id}}
    spec = rekeyed(tmp_path, app, 3, conversion={"function": backwards}, **formats)
    run_with(sorting, Context(spec))
    _assert_even(_receipts(spec.home))


def test_rows_in_the_order_of_keys_are_cut_evenly(tmp_path: Path) -> None:
    """One row group has more rows than are sampled."""
    count = 4 * _MOST_SAMPLED
    keys = pc.utf8_lpad(pa.array(range(count)).cast(pa.string()), 8, "0")
    columns = {"key": keys, "value": keys, "timestamp": pa.nulls(count, TIME)}
    table = write_rows(tmp_path / "table", columns)
    parts = {"target": {"partitions": 1}, "run": {"chunk_size": "256 KiB", "time_budget": "0s"}}
    spec = import_spec(tmp_path, conversion=TEXT, **parts)
    raises(InterruptedMigrationError, "time budget", import_here, spec, table)
    plan = load_plan(spec.home)
    assert plan is not None
    starts = [int(chunk.keys.start or b"0") for chunk in plan.chunks]
    sizes = [end - start for start, end in pairwise([*starts, count])]
    assert len(sizes) > 15
    assert max(sizes) < 1.2 * count / len(sizes)


def test_a_store_partition_with_most_of_the_records_is_cut_into_more_ranges(tmp_path: Path) -> None:
    (tmp_path / "mostly.py").write_text(MOSTLY)
    old: list[Family] = [{}, {}]
    for key, value in SKEWED.items():
        old[0 if zlib.crc32(key) % 10 < 6 else 1][key] = value
    app = make_application(tmp_path / "app", {"orders": old})
    spec = rekeyed(tmp_path, app, 4, conversion={"function": backwards}, source={"partitioner": "mostly:of"})
    run_with(sorting, Context(spec))
    _assert_even(receipts := _receipts(spec.home))
    ranges = Counter(receipt.store_partition for receipt in receipts)
    assert ranges["0_0/orders"] > sum(ranges.values()) / 2


def test_a_stored_plan_keeps_its_ranges(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(SKEWED, 2)})
    first = rekeyed(tmp_path, app, 3, conversion={"function": backwards}, run={"time_budget": "0s"})
    raises(InterruptedMigrationError, "time budget", run_with, sorting, Context(first))
    again = rekeyed(tmp_path, app, 3, conversion={"function": backwards}, run={"chunk_size": "64 KiB"})
    before = load_plan(first.home)
    run_with(sorting, Context(again))
    assert before is not None
    assert load_plan(again.home) == before
