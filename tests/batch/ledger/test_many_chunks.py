"""Ledgers of many chunks: a commit costs what the first one did, and the driver's memory for a chunk is bounded."""

import gc
import itertools
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from migrate.batch.home import load_plan, store_plan
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.model.ledger_row import chunk_row
from migrate.model.plan import Chunk
from migrate.model.receipt import Receipt
from tests.shared.builders import chunk, plan, receipt, written

BYTES_PER_CHUNK = 7_000
"""Of the driver's memory, with the plan; docs/scale.md counts 10 kB for all that a run keeps."""


def _key(number: int) -> bytes | None:
    return b"key-%08d" % number if number else None


def _chunks(count: int) -> list[Chunk]:
    return [chunk(number, _key(number), _key((number + 1) % count)) for number in range(count)]


def _receipt(of: Chunk) -> Receipt:
    outputs = (written(1000, file=f"chunks/0_0/orders/{of.number:06d}-0123456789ab.0.sst", first=of.keys.start),)
    made = receipt(of.keys.start, of.keys.end, number=of.number, outputs=outputs)
    return made.model_copy(update={"rejected": 0})


def test_a_commit_costs_what_the_first_ones_did(tmp_path: Path) -> None:
    """In calls, and in bytes that are read and written."""
    ledger, row = Ledger(tmp_path, "m", "r1"), chunk_row(receipt())
    costs = [_cost(lambda: ledger.commit(row)) for _ in range(400)]
    for first, last in zip(zip(*costs[:50], strict=True), zip(*costs[-50:], strict=True), strict=True):
        assert min(last) <= 1.1 * min(first)


def _cost(work: Callable[[], object]) -> tuple[int, int]:
    calls = itertools.count()
    before = _bytes_moved()
    sys.setprofile(lambda *_: next(calls) and None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(calls), _bytes_moved() - before


def _bytes_moved() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(counts["rchar"]) + int(counts["wchar"])


def test_the_drivers_memory_for_a_chunk_is_bounded(tmp_path: Path) -> None:
    count = 1000
    store_plan(tmp_path, plan(*_chunks(count)))
    ledger = Ledger(tmp_path, "m", "r1")
    for part in range(0, count, 100):
        ledger.commit(*(chunk_row(_receipt(each)) for each in _chunks(count)[part : part + 100]))
    del ledger
    tracemalloc.start()
    try:
        known = load_plan(tmp_path)
        standing = Standing(tmp_path, Ledger(tmp_path, "m", "r2").rows, known)
        assert len(standing.recorded) == count
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] / count < BYTES_PER_CHUNK
    finally:
        tracemalloc.stop()
