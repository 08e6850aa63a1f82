"""Throughput over the time in which there was work: the nights between two runs are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.batch.status.history import ChunkDone

_BINS = 72
_LEAST_PAUSE = 0.04
"""Of the time in which there was work: a shorter one is seen as a dip."""
_LEAST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records per second, bin by bin."""

    edges: tuple[float, ...]
    """Of the bins, in seconds of work since the first chunk began."""
    rates: tuple[float, ...]
    pauses: tuple[tuple[float, float], ...]
    """(when, in seconds of work; how long nothing was done)."""

    @property
    def seconds(self) -> float:
        """All of the work."""
        return self.edges[-1]

    @property
    def mean(self) -> float:
        """Over all of it."""
        widths = (after - before for before, after in zip(self.edges, self.edges[1:], strict=False))
        return sum(rate * width for rate, width in zip(self.rates, widths, strict=True)) / self.seconds


@dataclass(frozen=True, slots=True)
class _Span:
    start: float
    end: float
    records: int


def measure(chunks: Sequence[ChunkDone]) -> Throughput | None:
    """None where nothing was done. A chunk's records are spread evenly over the time that it took."""
    spans = sorted((_span(chunk) for chunk in chunks), key=lambda span: span.start)
    if not spans:
        return None
    spans, pauses = _without_pauses(spans, _pauses(spans))
    first, last = spans[0].start, max(span.end for span in spans)
    bins = min(_BINS, max(8, 3 * len(spans)))
    width = (last - first) / bins
    counts = [0.0] * bins
    for span in spans:
        _spread(span, first, width, counts)
    edges = tuple(width * number for number in range(bins + 1))
    return Throughput(edges, tuple(records / width for records in counts), tuple(pauses))


def _span(chunk: ChunkDone) -> _Span:
    """The end is the driver's clock, the start a worker's: where they differ so much that it ends first, its length."""
    end = chunk.committed_at_ms / 1000
    start = chunk.started_at_ms / 1000
    if start >= end:
        start = end - max(chunk.seconds, 0.001)
    return _Span(start, end, chunk.records_in)


def _pauses(spans: Sequence[_Span]) -> list[tuple[float, float]]:
    """(from, until) of every time without work that is long enough to tell of."""
    gaps = []
    busy_until = spans[0].end
    for span in spans[1:]:
        if span.start > busy_until:
            gaps.append((busy_until, span.start))
        busy_until = max(busy_until, span.end)
    work = busy_until - spans[0].start - sum(until - since for since, until in gaps)
    least = max(_LEAST_PAUSE_SECONDS, _LEAST_PAUSE * work)
    return [(since, until) for since, until in gaps if until - since > least]


def _without_pauses(
    spans: Sequence[_Span], pauses: Sequence[tuple[float, float]]
) -> tuple[list[_Span], list[tuple[float, float]]]:
    """The spans moved together, and where the seams are."""
    moved = []
    for span in spans:
        before = sum(until - since for since, until in pauses if until <= span.start)
        moved.append(_Span(span.start - before, span.end - before, span.records))
    seams, passed = [], spans[0].start
    for since, until in pauses:
        seams.append((since - passed, until - since))
        passed += until - since
    return moved, seams


def _spread(span: _Span, first: float, width: float, counts: list[float]) -> None:
    per_second = span.records / (span.end - span.start)
    number = min(len(counts) - 1, int((span.start - first) / width))
    while number < len(counts):
        start, end = first + number * width, first + (number + 1) * width
        if start >= span.end:
            break
        counts[number] += per_second * max(0.0, min(end, span.end) - max(start, span.start))
        number += 1
