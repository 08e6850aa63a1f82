"""The rate of rewriting over the time of work, without the pauses between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.batch.status.history import ChunkDone
from migrate.batch.status.throughput import Span, pauses_of, spans_of

_BINS = 72


@dataclass(frozen=True, slots=True)
class RateOverTime:
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


def measure(chunks: Sequence[ChunkDone]) -> RateOverTime | None:
    """The rate of chunks, whose records are spread evenly over their time; None without chunks."""
    spans = spans_of((chunk.seconds, chunk.committed_at_ms, chunk.records_in) for chunk in chunks)
    if not spans:
        return None
    spans, pauses = _without_pauses(spans, pauses_of(spans))
    first, last = spans[0].start, max(each.end for each in spans)
    bins = min(_BINS, max(8, 3 * len(spans)))
    width = (last - first) / bins
    counts = [0.0] * bins
    for each in spans:
        _spread(each, first, width, counts)
    edges = tuple(width * number for number in range(bins + 1))
    return RateOverTime(edges, tuple(records / width for records in counts), tuple(pauses))


def _without_pauses(
    spans: Sequence[Span], pauses: Sequence[tuple[float, float]]
) -> tuple[list[Span], list[tuple[float, float]]]:
    """The spans without the pauses between them, and the pauses in seconds of work."""
    moved = []
    for each in spans:
        before = sum(until - since for since, until in pauses if until <= each.start)
        moved.append(Span(each.start - before, each.end - before, each.records))
    seams, passed = [], spans[0].start
    for since, until in pauses:
        seams.append((since - passed, until - since))
        passed += until - since
    return moved, seams


def _spread(span: Span, first: float, width: float, counts: list[float]) -> None:
    per_second = span.records / (span.end - span.start)
    number = min(len(counts) - 1, int((span.start - first) / width))
    while number < len(counts):
        start, end = first + number * width, first + (number + 1) * width
        if start >= span.end:
            break
        counts[number] += per_second * max(0.0, min(end, span.end) - max(start, span.start))
        number += 1
