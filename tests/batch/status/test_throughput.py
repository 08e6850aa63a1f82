"""Throughput: the records that a phase read, by the time in which it worked, whatever runs and slots it had."""

from pathlib import Path

import pytest

from migrate.batch.ledger.standing import Standing
from migrate.batch.status.status import rewriting_of
from migrate.model.ledger_row import chunk_row
from tests.shared.builders import receipt

RECORDS = 3
"""Of each receipt."""


def _seconds(*chunks: tuple[float, float]) -> float | None:
    """The time of chunks that were at work from and until these seconds."""
    rows, receipts = [], []
    for number, (start, end) in enumerate(chunks):
        made = receipt(b"%d" % number, b"%d" % (number + 1), number=number)
        receipts.append(made.model_copy(update={"seconds": end - start}))
        rows.append(chunk_row(receipts[-1]).model_copy(update={"committed_at_ms": int(end * 1000)}))
    found = rewriting_of(Standing(Path("nowhere"), rows), receipts)
    if found is None:
        return None
    assert found.records == RECORDS * len(chunks)
    assert found.records_per_second == pytest.approx(found.records / found.seconds, rel=0.05)
    return found.seconds


@pytest.mark.parametrize(
    ("chunks", "seconds"),
    [
        ([(100.0, 110.0)], 10.0),
        ([(100.0, 110.0), (110.5, 120.0)], 20.0),
        ([(100.0, 110.0), (100.0, 108.0), (105.0, 115.0)], 15.0),
        ([(100.0, 110.0), (40_000.0, 40_010.0)], 20.0),
        ([(100.0, 110.0), (101.0, 102.0), (115.0, 116.0), (500.0, 501.0)], 12.0),
    ],
    ids=["a chunk", "the time between two chunks", "several slots", "two runs", "three runs"],
)
def test_the_time_in_which_any_chunk_was_at_work_counts_once(chunks: list[tuple[float, float]], seconds: float) -> None:
    assert _seconds(*chunks) == seconds
    assert _seconds(*reversed(chunks)) == seconds


def test_nothing_done_has_no_throughput() -> None:
    assert _seconds() is None


def test_a_chunk_that_took_no_time_has_one() -> None:
    assert _seconds((100.0, 100.0)) == 0.001
