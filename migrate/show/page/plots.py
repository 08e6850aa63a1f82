"""Bars and plots: SVG shapes that are stretched to the width of the page, with texts that keep their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log, log10
from statistics import median
from typing import TypeVar

from migrate.dry_run.dry_run_report import Sizes
from migrate.model.units import duration, number, plural, share, size
from migrate.show.page.working_time import RateOverTime

N = TypeVar("N", bound=float)
_STEEP = 30
_MOST_LABELS = 8
_MOST_NOTED_PAUSES = 3
_NOTE_WIDTH = 20
"""Percent of the plot: texts of pauses that are closer would cover each other."""
_HEADROOM = 1.16
Step = tuple[float, float, float]
"""(left, right, top): the sides as percent from the left, the top as percent from the top of the plot."""


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
class Part:
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


def parts_of(whole: float, amounts: Iterable[tuple[str, N, str]], show: Callable[[N], str]) -> list[Part]:
    """Bars for amounts of one whole, given as (label, amount, tone)."""
    whole = max(whole, 1e-9)
    return [Part(label, show(amount), min(1.0, amount / whole), tone) for label, amount, tone in amounts]


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
