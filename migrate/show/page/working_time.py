"""Throughput over the time of work, without the pauses between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.batch.status.history import ChunkDone

_BINS = 72
_LEAST_PAUSE = 0.04
"""The least share of the time of work that counts as a pause; a shorter one is a dip in the plot."""
_LEAST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records per second, bin by bin."""

    edges: tuple[float, ...]
    """Edges of the bins, in seconds of work since the first chunk started."""
    rates: tuple[float, ...]
    pauses: tuple[tuple[float, float], ...]
    """Each as (start in seconds of work, length in seconds)."""

    @property
    def seconds(self) -> float:
        """The length of the work."""
        return self.edges[-1]

    @property
    def mean(self) -> float:
        """Records per second over all of the work."""
        widths = (after - before for before, after in zip(self.edges, self.edges[1:], strict=False))
        return sum(rate * width for rate, width in zip(self.rates, widths, strict=True)) / self.seconds


@dataclass(frozen=True, slots=True)
class _Span:
    start: float
    end: float
    records: int


def measure(chunks: Sequence[ChunkDone]) -> Throughput | None:
    """The throughput of chunks, whose records are spread evenly over their time; None without chunks."""
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
    """The time of a chunk. The end is the driver's clock, the start a worker's, corrected if it is later."""
    end = chunk.committed_at_ms / 1000
    start = chunk.started_at_ms / 1000
    if start >= end:
        start = end - max(chunk.seconds, 0.001)
    return _Span(start, end, chunk.records_in)


def _pauses(spans: Sequence[_Span]) -> list[tuple[float, float]]:
    """Times without work, as (start, end), that are long enough to count as pauses."""
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
    """The spans without the pauses between them, and the pauses in seconds of work."""
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
