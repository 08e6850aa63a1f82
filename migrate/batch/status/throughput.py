"""The throughput of a migration over all of its runs, defined once for `run`, `status`, `report` and the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap

from migrate.batch.ledger.standing import Standing
from migrate.model.comparison import Verification
from migrate.model.receipt import Receipt
from migrate.model.reports import Phase, Throughput

PAUSE_SECONDS = 2.0
"""A longer time in which no chunk is at work is a pause, as between two runs: it does not count as work."""


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one chunk, in seconds of the driver's clock."""

    start: float
    end: float
    records: int


def _span(seconds: float, committed_at_ms: int, records: int) -> Span:
    end = committed_at_ms / 1000
    return Span(end - max(seconds, 0.001), end, records)


def spans_of(chunks: Iterable[tuple[float, int, int]]) -> list[Span]:
    """The times of chunks, by their starts, from their duration in seconds, time of commit and number of records."""
    return sorted(starmap(_span, chunks), key=lambda each: each.start)


def pauses_of(spans: Sequence[Span]) -> list[tuple[float, float]]:
    """The pauses between chunks that are sorted by their starts, each as (start, end)."""
    pauses, busy_until = [], spans[0].end
    for each in spans[1:]:
        if each.start - busy_until > PAUSE_SECONDS:
            pauses.append((busy_until, each.start))
        busy_until = max(busy_until, each.end)
    return pauses


def rewriting_of(standing: Standing, receipts: Iterable[Receipt]) -> Throughput | None:
    """The throughput of the chunks with these receipts; None without chunks."""
    spans = spans_of((each.seconds, standing.committed_ms[each.attempt], each.records_in) for each in receipts)
    if not spans:
        return None
    whole = max(each.end for each in spans) - spans[0].start
    seconds = whole - sum(until - since for since, until in pauses_of(spans))
    return _throughput("rewriting", sum(each.records for each in spans), seconds)


def throughput_of(standing: Standing) -> tuple[Throughput, ...]:
    """The throughput of each phase that has worked."""
    phases = (rewriting_of(standing, standing.receipts), _verification_of(standing.verification))
    return tuple(each for each in phases if each is not None)


def _verification_of(found: Verification | None) -> Throughput | None:
    if found is None or not found.seconds:
        return None
    records = found.records - found.records_before
    return _throughput("verification", records, found.seconds) if records else None


def _throughput(phase: Phase, records: int, seconds: float) -> Throughput:
    return Throughput(
        phase=phase, records=records, seconds=round(seconds, 3), records_per_second=round(records / seconds, 1)
    )
