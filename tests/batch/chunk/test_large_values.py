"""No batch stays in memory while the next one is read: more large values need no more of it."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migrate.batch.chunk.compare_stores import CompareTask, run_verify_task
from migrate.engine.chunk_source import Inputs
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.batch import Batch
from migrate.stores.merge import MergedScan
from tests.support import RAW, make_store

SIZE = 12_000_000
MAPPING = FamilyMapping(source="default", target="default")


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("wrong", [0, 1])
def test_of_a_comparison(tmp_path: Path, wrong: int) -> None:
    def peak(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        records = {bytes([number]): bytes([number]) * SIZE for number in range(count)}
        old = make_store(folder / "old", records)
        new = make_store(folder / "new", records | {bytes([count]): b""} | {b"\0": bytes(SIZE - wrong)})
        task = CompareTask("db", ".", Inputs((str(old),)), MAPPING, KeyRange(), ConversionRef(RAW, RAW), str(new))
        del records

        def compare() -> None:
            assert run_verify_task(task).mismatches == 1 + wrong

        return _peak(compare)

    assert peak(4) < peak(2) + SIZE // 2


def test_of_a_merged_scan() -> None:
    def batches(*records: tuple[bytes, int]) -> Iterator[Batch]:
        for key, size in records:
            yield Batch([key], [bytes(size)])

    def read() -> None:
        for batch in MergedScan([batches((b"b", SIZE), (b"c", SIZE)), batches((b"a", 1))]):
            del batch

    assert _peak(read) < 1.5 * SIZE
