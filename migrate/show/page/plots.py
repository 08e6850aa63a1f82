"""Bars, plots, a map of keys as wide as its chunks, and rates without the pauses: SVG shapes stretched to the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log, log10
from statistics import median
from typing import TypeVar

from migrate.batch.status.status import Span, pauses_of, spans_of
from migrate.dry_run.dry_run_report import Sizes
from migrate.model.display import duration, number, plural, share, size, visible
from migrate.model.plan import Chunk
from migrate.model.run_history import ChunkDone
from migrate.model.store_partition import place_name

N = TypeVar("N", bound=float)
_STEEP = 30
_MOST_LABELS = 8
_MOST_NOTED_PAUSES = 3
_NOTE_WIDTH = 20
"""Percent of the plot: texts of pauses that are closer would cover each other."""
_HEADROOM = 1.16
Step = tuple[float, float, float]
"""(left, right, top): the sides as percent from the left, the top as percent from the top of the plot."""
_CHUNKS_PER_LINE = 80
"""Of the map: more of them cannot be distinguished on a phone."""
_LEAST_WIDTH = 0.5
"""Of a chunk on the map, in percent of a line."""
_BINS = 72
"""Of the rates over time."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in the plot or below it."""

    x: float
    """Percent from the left; `y` is percent from the top."""
    y: float
    text: str
    anchor: str = "middle"
    """The part of the text that is at `x`: start, middle or end."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar for one part of a whole."""

    label: str
    text: str
    share: float
    """0 to 1."""
    tone: str = "accent"
    """The name of a colour in the style sheet."""

    @property
    def width(self) -> float:
        """The width of the bar, 0 to 100, at least visible unless the share is 0."""
        return round(max(100 * self.share, 0.4 if self.share else 0.0), 2)


def parts_of(
    amounts: Sequence[tuple[str, N, str]], show: Callable[[N], str], *, whole: float | None = None
) -> list[Bar]:
    """Bars for amounts of one whole, given as (label, amount, tone); `whole`: None for the largest."""
    full = max(1e-9, max((float(amount) for _, amount, _ in amounts), default=0.0) if whole is None else whole)
    return [Bar(label, show(amount), min(1.0, amount / full), tone) for label, amount, tone in amounts]


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot in a square of 100 by 100, as SVG paths and texts."""

    description: str
    """A description for screen readers."""
    filled: str
    below: str
    ticks: tuple[Text, ...]
    levels: tuple[tuple[float, str], ...] = ()
    """(percent from the top, label)."""
    notes: tuple[Text, ...] = ()
    dashed: str = ""
    tone: str = "accent-2"
    """The colour of the dashed lines, by its name in the style sheet."""


def size_histogram(sizes: Sizes, *, what: str) -> Plot:
    """The share of keys or values in each bucket of sizes."""
    shares = [part for _, part in sizes.buckets]
    room = max(0.1, (6 - len(shares)) / 2)  # few bars would be wider than high
    width = 100 / (len(shares) + 2 * room)
    middles = [(room + place + 0.5) * width for place in range(len(shares))]
    heights = [100 - 100 * part / (max([*shares, 0.01]) * _HEADROOM) for part in shares]
    every = -(-len(shares) // _MOST_LABELS) or 1
    bars = [(x - 0.41 * width, x + 0.41 * width, y) for x, y in zip(middles, heights, strict=True)]
    quantiles = f"half up to {size(sizes.p50)}, 99 % up to {size(sizes.p99)}, the largest {size(sizes.largest)}"
    return Plot(
        f"{what}: {quantiles}",
        _path(bars),
        "bytes, at most",
        tuple(Text(middles[at], 0, _bound(sizes.buckets[at][0])) for at in range(0, len(shares), every)),
        notes=tuple(
            Text(x, y, _percent(100 * part))
            for x, y, part in zip(middles, heights, shares, strict=True)
            if every == 1 or part == max(shares)
        ),
    )


def sorted_bars(
    values: Sequence[float],
    *,
    what: str,
    show: Callable[[float], str],
    ends: tuple[str, str],
    mark: tuple[float, str] | None = None,
) -> Plot:
    """One bar for each value, the largest first; `mark` is a level to compare them with, and its label."""
    ordered = sorted(values, reverse=True)
    height, levels, is_steep = _scale([*ordered, *([mark[0]] if mark else [])])
    width = 100 / len(ordered)
    chunks = plural(len(ordered), "chunk")
    return Plot(
        f"{what} of {chunks}, {ends[0]} first: from {show(ordered[0])} to {show(ordered[-1])}",
        _path((place * width, (place + 1) * width, height(value)) for place, value in enumerate(ordered)),
        chunks + (", on a logarithmic scale" if is_steep else ""),
        (Text(0, 0, ends[0], "start"), Text(100, 0, ends[1], "end")),
        tuple((height(level), show(level)) for level in levels),
        (Text(100, height(mark[0]), mark[1], "end"),) if mark else (),
        f"M0 {height(mark[0]):.2f}H100" if mark else "",
    )


def throughput(measured: RateOverTime) -> Plot:
    """Records per second over the time in which chunks were rewritten."""
    unit, word = next(
        ((length, word) for length, word in ((3600.0, "hours"), (60.0, "minutes")) if measured.seconds > 2 * length),
        (1.0, "seconds"),
    )
    most = max([*measured.rates, 1.0])
    across = [100 * edge / measured.seconds for edge in measured.edges]
    heights = [100 - 100 * rate / (most * _HEADROOM) for rate in measured.rates]
    seams = [(100 * at / measured.seconds, pause) for at, pause in measured.pauses]
    have_room = all(after - before >= _NOTE_WIDTH for (before, _), (after, _) in pairwise(seams))
    return Plot(
        f"records per second over {duration(measured.seconds)} of work: {number(round(most))} at most, "
        f"{plural(len(seams), 'pause')}",
        _path(zip(across, across[1:], heights, strict=False)),
        f"{word} of work",
        tuple(Text(100 * unit * at / measured.seconds, 0, f"{at:,.3g}") for at in _even(measured.seconds / unit)),
        tuple((100 - 100 * level / (most * _HEADROOM), _short(level)) for level in _even(most)),
        tuple(Text(x, 10, f"after {duration(pause)}", "start" if x < 75 else "end") for x, pause in seams)
        if have_room and len(seams) <= _MOST_NOTED_PAUSES
        else (),
        "".join(f"M{x:.2f} 0V100" for x, _ in seams),
        "bad",
    )


def _path(steps: Iterable[Step]) -> str:
    """An SVG path of steps that are filled down to the bottom."""
    return "".join(f"M{start:.2f} 100V{height:.2f}H{end:.2f}V100" for start, end, height in steps)


def _scale(values: Sequence[float]) -> tuple[Callable[[float], float], list[float], bool]:
    """Return the function from a value to its height, three levels, and whether the scale is logarithmic.

    It is logarithmic if the largest value would make the others invisible.
    """
    top, middle = max([*values, 0.0]) or 1.0, median(values)
    if middle <= 0 or top <= _STEEP * middle:
        return lambda value: 100 - 100 * value / (top * _HEADROOM), [0, top / 2, top], False
    least = min(value for value in values if value > 0)
    whole = 2 * (top / least) ** _HEADROOM  # from half of the least one
    return lambda value: 100 - 100 * log(max(1.0, 2 * value / least), whole), [least, (least * top) ** 0.5, top], True


def _even(most: float) -> list[float]:
    """A few round numbers from 0 to `most`."""
    least = 10 ** floor(log10(most / 5))
    step = next(times * least for times in (1, 2, 5, 10) if times * least * 5 >= most)
    return [place * step for place in range(int(most / step) + 1)]


def _bound(upper: int) -> str:
    return str(upper) if upper < 1024 else size(upper).replace(".0", "").replace("iB", "").replace(" ", "")


def _percent(percent: float) -> str:
    return share(percent / 100).replace(".0 %", " %") if percent < 10 else f"{percent:.0f} %"


def _short(number: float) -> str:
    for length, word in ((1e6, "M"), (1e3, "k")):
        if number >= length:
            return f"{number / length:,.3g}{word}"
    return f"{number:,.3g}"


@dataclass(frozen=True, slots=True)
class MapSpan:
    """One chunk on the map."""

    band: str
    title: str
    """Its tooltip."""
    size: int
    opacity: float = 1.0
    """Strength of the colour, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Band:
    """One RocksDB directory."""

    label: str
    summary: str
    """The number of chunks and their size."""
    segments: tuple[tuple[float, MapSpan], ...]
    """Each with its width in percent of a line; the page starts a new line when one is full."""


def span_of(chunk: Chunk | ChunkDone, extent: int, *, seconds: float | None = None, opacity: float = 1.0) -> MapSpan:
    """A chunk of so many bytes, on the band of its RocksDB directory."""
    took = "" if seconds is None else f", {duration(seconds)}"
    title = visible(f"chunk {chunk.number}: {size(extent)}{took}, keys {chunk.keys}")
    return MapSpan(place_name(chunk.store_partition, chunk.database), title, extent, round(opacity, 2))


def bands(pieces: Iterable[MapSpan]) -> list[Band]:
    """The bands of the map, all on one scale."""
    by_band: dict[str, list[MapSpan]] = {}
    for piece in pieces:
        by_band.setdefault(piece.band, []).append(piece)
    scale = _bytes_per_line(list(by_band.values()))
    return [
        Band(
            label,
            f"{plural(len(chunks), 'chunk')}, {size(sum(chunk.size for chunk in chunks))}",
            tuple((_width(chunk.size / scale), chunk) for chunk in chunks),
        )
        for label, chunks in by_band.items()
    ]


def _bytes_per_line(all_pieces: Sequence[Sequence[MapSpan]]) -> float:
    """The scale at which the chunks of the fullest line can be distinguished.

    A chunk that is very much larger than the others fills a line, so that the others stay visible.
    """
    sizes = [piece.size for pieces in all_pieces for piece in pieces]
    if not sizes:
        return 1.0
    lines = [sum(piece.size for piece in pieces) / -(-len(pieces) // _CHUNKS_PER_LINE) for pieces in all_pieces]
    ceiling = max(1.0, median(sizes)) * _CHUNKS_PER_LINE
    return max(1.0, min(max(lines), ceiling), min(max(sizes), ceiling))


def _width(part: float) -> float:
    """The width in percent, rounded down so that the chunks of a full line stay on it."""
    return min(100.0, max(_LEAST_WIDTH, floor(100_000 * part) / 1000))


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
