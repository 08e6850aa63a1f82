"""What the pages plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from markupsafe import Markup

from migrate.dry_run.report import Sizes
from migrate.page.figures import BAD, FIRST, INK, NARROW, SECOND, WIDE, Draw, plot
from migrate.page.working_time import Throughput
from migrate.words import duration, number, plural, share, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEEP = 30
_LABEL_WIDTH = 46
"""Pixels that a bar's label needs."""


def both_widths(draw: Draw, *, name: str, says: str, height: int = 230) -> Markup:
    """One plot twice: the page shows the one that fits the screen."""
    wide = plot(draw, name=f"{name}-wide", says=says, width=WIDE, height=height)
    narrow = plot(draw, name=f"{name}-narrow", says=says, width=NARROW, height=height)
    return Markup('<div class="wide-only">{}</div><div class="narrow-only">{}</div>').format(wide, narrow)


def size_histogram(sizes: Sizes, *, name: str, what: str) -> Markup:
    """How many of the keys, or of the values, are how large."""

    def draw(axes: Axes, width: int) -> None:
        shares = [100 * part for _, part in sizes.buckets]
        axes.bar(range(len(shares)), shares, width=0.82, color=FIRST)
        every = max(1, -(-len(shares) * _LABEL_WIDTH // width))
        places = range(0, len(shares), every)
        axes.set_xticks(places, [_bound(sizes.buckets[place][0]) for place in places])
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.5 - _room(len(shares)), len(shares) - 0.5 + _room(len(shares)))
        axes.set_ylim(0, max([*shares, 1]) * 1.16)
        for place, part in enumerate(shares):
            if every == 1 or part == max(shares):
                axes.annotate(
                    _percent(part), (place, part), (0, 3), textcoords="offset points", ha="center", fontsize=11
                )
        axes.set_yticks([])
        axes.set_xlabel("bytes, at most")

    says = (
        f"{what}: half of them up to {size(sizes.p50)}, 99 % up to {size(sizes.p99)}, the largest {size(sizes.largest)}"
    )
    return plot(draw, name=name, says=says, height=200)


def sorted_bars(
    values: Sequence[float],
    *,
    name: str,
    what: str,
    show: Callable[[float], str],
    ends: tuple[str, str],
    mark: tuple[float, str] | None = None,
) -> Markup:
    """One value for each chunk, the largest first, however many there are; `mark` is a level to compare them with."""
    ordered = sorted(values, reverse=True)

    def draw(axes: Axes, _width: int) -> None:
        axes.stairs(ordered, range(len(ordered) + 1), fill=True, color=FIRST, linewidth=0)
        _set_levels(axes, [*ordered, *([mark[0]] if mark else [])], show)
        axes.set_xlim(0, len(ordered))
        axes.set_xticks([0, len(ordered)], ends)
        first, last = axes.get_xticklabels()
        first.set_horizontalalignment("left")
        last.set_horizontalalignment("right")
        axes.tick_params(axis="both", length=0)
        steep = ", on a logarithmic scale" if axes.get_yscale() == "log" else ""
        axes.set_xlabel(plural(len(ordered), "chunk") + steep)
        if mark:
            axes.axhline(mark[0], color=SECOND, linewidth=1.5, linestyle=(0, (4, 3)))
            axes.annotate(
                mark[1], (len(ordered), mark[0]), (-2, 4), textcoords="offset points", ha="right", fontsize=11
            )

    says = f"{what} of {plural(len(ordered), 'chunk')}, {ends[0]} first: from {show(ordered[0])} to {show(ordered[-1])}"
    return plot(draw, name=name, says=says, height=200)


def throughput(measured: Throughput, *, name: str) -> Markup:
    """Records per second, over the time in which chunks were rewritten."""
    unit, word = next(
        ((length, word) for length, word in ((3600.0, "hours"), (60.0, "minutes")) if measured.seconds > 2 * length),
        (1.0, "seconds"),
    )

    def draw(axes: Axes, width: int) -> None:
        edges = [edge / unit for edge in measured.edges]
        axes.stairs(measured.rates, edges, fill=True, color=FIRST, linewidth=0)
        axes.set_ylim(0, max([*measured.rates, 1.0]) * 1.2)
        axes.set_xlim(0, edges[-1])
        axes.yaxis.set_major_formatter(lambda value, _position: _short(value))
        axes.locator_params(axis="y", nbins=5)
        axes.locator_params(axis="x", nbins=max(4, width // 90))
        axes.tick_params(axis="both", length=0)
        axes.set_xlabel(f"{word} of work")
        labelled = len(measured.pauses) * 110 < width
        for at, pause in measured.pauses:
            axes.axvline(at / unit, color=BAD, linewidth=1.2, linestyle=(0, (4, 3)))
            if labelled:
                left = at < measured.seconds * 0.75
                axes.annotate(
                    f"after {duration(pause)}",
                    (at / unit, 1.0),
                    (4 if left else -4, -2),
                    xycoords=("data", "axes fraction"),
                    textcoords="offset points",
                    ha="left" if left else "right",
                    va="top",
                    fontsize=11,
                    color=INK,
                )

    says = (
        f"records per second over {duration(measured.seconds)} of work: {number(round(measured.mean))} on average, "
        f"{number(round(max(measured.rates)))} at most, {plural(len(measured.pauses), 'pause')}"
    )
    return both_widths(draw, name=name, says=says)


def _set_levels(axes: Axes, values: Sequence[float], show: Callable[[float], str]) -> None:
    """Logarithmic where one value would flatten all others."""
    top, middle = max([*values, 0.0]) or 1.0, median(values)
    if middle > 0 and top > _STEEP * middle:
        least = min(value for value in values if value > 0)
        axes.set_yscale("log")
        axes.set_ylim(least / 2, top * (top / least) ** 0.16)
        ticks = [least, (least * top) ** 0.5, top]
    else:
        axes.set_ylim(0, top * 1.16)
        ticks = [0, top / 2, top]
    axes.set_yticks(ticks, [show(tick) for tick in ticks])
    axes.minorticks_off()


def _bound(upper: int) -> str:
    return str(upper) if upper < 1024 else size(upper).replace(".0", "").replace("iB", "").replace(" ", "")


def _room(bars: int) -> float:
    """Beside bars that would be broader than they are high."""
    return max(0.1, (6 - bars) / 2)


def _percent(percent: float) -> str:
    return share(percent / 100).replace(".0 %", " %") if percent < 10 else f"{percent:.0f} %"


def _short(number: float) -> str:
    for length, word in ((1e6, "M"), (1e3, "k")):
        if number >= length:
            return f"{number / length:,.3g}{word}"
    return f"{number:,.3g}"
