"""Plots as inline SVG: drawn by matplotlib without a screen, coloured by the page, the same each time."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that nothing else uses: the page puts its own in their places, by day and by night.
INK = "#010a01"
FAINT = "#010a02"
FIRST = "#010a03"
SECOND = "#010a04"
BAD = "#010a05"
_VARIABLES = {INK: "--ink-soft", FAINT: "--line", FIRST: "--fill", SECOND: "--accent-2", BAD: "--bad"}

WIDE, NARROW = 880, 400
"""Widths in pixels at which text is as large as the page's small print."""
_DOTS_PER_INCH = 72
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 12,
    "axes.linewidth": 1.0,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same measures everywhere
    "font.size": 12,
    "grid.color": FAINT,
    "grid.linewidth": 1.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "stateferry",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 12,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 12,
    "ytick.left": False,
}

Draw = Callable[["Axes", int], None]
"""Draws into axes that are so many pixels wide."""


def plot(draw: Draw, *, name: str, says: str, width: int = NARROW, height: int = 210) -> Markup:
    """One plot. `name` keeps its ids apart from those of others; `says` is for those who cannot see it."""
    with _matplotlib():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width / _DOTS_PER_INCH, height / _DOTS_PER_INCH), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot(), width)
        written = StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return Markup(_inline(written.getvalue(), name, says))


@contextmanager
def _matplotlib() -> Iterator[None]:
    """Our style alone, whatever the user's own is."""
    with ExitStack() as stack:
        if not _is_at_home():
            stack.enter_context(_cache_elsewhere())
        import matplotlib as mpl

        stack.enter_context(mpl.rc_context())
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def _is_at_home() -> bool:
    """matplotlib was used here before, or was told where to keep its cache."""
    if "matplotlib" in sys.modules or "MPLCONFIGDIR" in os.environ:
        return True
    try:
        home = Path.home()
    except RuntimeError:
        return False
    return any((home / folder).is_dir() for folder in (".config/matplotlib", ".cache/matplotlib", ".matplotlib"))


@contextmanager
def _cache_elsewhere() -> Iterator[None]:
    """A dry run leaves no file behind: no cache of fonts either, where there was none before."""
    with tempfile.TemporaryDirectory(prefix="stateferry-plots-") as folder:
        os.environ["MPLCONFIGDIR"] = folder
        try:
            yield
        finally:
            del os.environ["MPLCONFIGDIR"]


def _inline(svg: str, name: str, says: str) -> str:
    """The drawing as part of a page: no head of its own, no style for others, no id twice, no colour of its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg class="plot" role="img" aria-label="{escape(says)}" {view.group() if view else ""}>'
    svg = head + svg[svg.index(">") + 1 :]
    svg = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return re.sub(r">\s+<", ">\n<", svg).strip()
