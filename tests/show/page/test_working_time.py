"""The rate over time counts every record, and leaves out the times without work."""

from itertools import pairwise

import pytest

from migrate.model.key_range import KeyRange
from migrate.model.run_history import ChunkDone
from migrate.show.page.plots import RateOverTime, measure


def _chunk(started: float, committed: float, records: int, *, seconds: float | None = None) -> ChunkDone:
    return ChunkDone(
        store_partition="0_0/orders",
        database=".",
        number=0,
        keys=KeyRange(),
        records_in=records,
        records_out=records,
        bytes_in=0,
        bytes_out=0,
        dropped=0,
        rejected=0,
        seconds=committed - started if seconds is None else seconds,
        started_at_ms=int(started * 1000),
        committed_at_ms=int(committed * 1000),
        host="",
        engine="",
    )


def _measured(*chunks: ChunkDone) -> RateOverTime:
    measured = measure(chunks)
    assert measured is not None
    return measured


def _records(measured: RateOverTime) -> float:
    widths = (after - before for before, after in pairwise(measured.edges))
    return sum(rate * width for rate, width in zip(measured.rates, widths, strict=True))


def test_nothing_done_is_nothing_measured() -> None:
    assert measure([]) is None


def test_one_chunk_has_one_rate() -> None:
    measured = _measured(_chunk(100, 110, 5000))
    assert measured.seconds == pytest.approx(10)
    assert measured.rates == pytest.approx([500] * len(measured.rates))


def test_chunks_at_the_same_time_add_up() -> None:
    measured = _measured(_chunk(100, 110, 5000), _chunk(100, 110, 3000), _chunk(110, 120, 1000))
    assert measured.rates[0] == pytest.approx(800)
    assert measured.rates[-1] == pytest.approx(100)
    assert _records(measured) == pytest.approx(9000)


def test_a_night_between_two_runs_is_left_out_and_listed() -> None:
    measured = _measured(_chunk(0, 10, 1000), _chunk(40_010, 40_020, 1000), _chunk(40_021, 40_030, 1000))
    assert measured.seconds == pytest.approx(30)
    assert list(measured.pauses) == [(10, 40_000)]
    assert _records(measured) == pytest.approx(3000)


def test_every_pause_is_where_it_was_in_the_work() -> None:
    measured = _measured(_chunk(0, 10, 1), _chunk(110, 120, 1), _chunk(320, 330, 1))
    assert list(measured.pauses) == [(10, 100), (20, 200)]


def test_a_worker_whose_clock_is_ahead_loses_no_record() -> None:
    measured = _measured(_chunk(500, 10, 1000, seconds=4), _chunk(6, 10, 1000))
    assert measured.seconds == pytest.approx(4)
    assert _records(measured) == pytest.approx(2000)


def test_a_chunk_that_took_no_time_is_still_counted() -> None:
    assert _records(_measured(_chunk(10, 10, 7))) == pytest.approx(7)


def test_thousands_of_chunks_make_a_plot_that_can_be_read() -> None:
    measured = _measured(*(_chunk(number, number + 4, 100) for number in range(2000)))
    assert len(measured.rates) == 72
    assert _records(measured) == pytest.approx(200_000)
