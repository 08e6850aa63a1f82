"""Plots are drawn without a screen, the same each time, and coloured by the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from migrate.page.plots import size_histogram, sorted_bars, throughput
from migrate.page.working_time import measure
from migrate.words import size
from tests.page.histories import done
from tests.page.samples import sizes

REPOSITORY = Path(__file__).parents[2]
HOSTILE = '"><script>alert(1)</script> $\\frac{1$'


def _histogram(name: str = "sizes") -> str:
    return size_histogram(sizes(0.1, 0.7, 0.2), name=name, what="sizes of keys")


def _bars(values: list[float]) -> str:
    return sorted_bars(
        values, name="bars", what=HOSTILE, show=size, ends=("biggest", "smallest"), mark=(2**20, HOSTILE)
    )


def test_the_same_numbers_are_the_same_bytes() -> None:
    assert _histogram() == _histogram()
    measured = measure(done())
    assert measured is not None
    assert throughput(measured, name="t") == throughput(measured, name="t")


def test_every_colour_is_the_page_s() -> None:
    for svg in (_histogram(), _bars([1.0, 2.0])):
        assert re.findall(r"[:\"]\s*#[0-9a-fA-F]{6}\b", svg) == []
        assert {"var(--fill)", "var(--ink-soft)"} <= set(re.findall(r"var\(--[a-z-]+\)", svg))


def test_a_plot_brings_no_style_no_head_and_no_address() -> None:
    for svg in (_histogram(), _bars([1.0, 2.0])):
        assert svg.startswith('<svg class="plot" role="img" aria-label="')
        assert not re.search(r"<style|<metadata|<\?xml|<!|xlink|http", svg)


def test_text_is_text_and_is_escaped() -> None:
    svg = _bars([1.0, 2.0])
    assert "<script" not in svg
    assert '>"&gt;&lt;script&gt;alert(1)&lt;/script&gt; $\\frac{1$</text>' in svg
    assert ">70 %</text>" in _histogram()


def test_ids_are_unique_across_the_plots_of_a_page() -> None:
    ids = [re.findall(r' id="([^"]*)"', _histogram(name)) for name in ("one", "two")]
    assert ids[0]
    assert set(ids[0]).isdisjoint(ids[1])
    svg = _histogram("one")
    used = re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', svg)
    assert {first or second for first, second in used} <= set(ids[0])


def test_a_plot_says_what_it_shows_to_those_who_cannot_see_it() -> None:
    assert 'aria-label="sizes of keys: half of them up to 13 B, 99 % up to 29 B, the largest 29 B"' in _histogram()


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [5.0] * 3000, [1.0, 2.0, 1e12], [3.0]])
def test_bars_of_any_numbers_can_be_drawn(values: list[float]) -> None:
    assert size(max(values)) in _bars(values)


def test_a_scale_that_is_not_even_says_so() -> None:
    words = "on a logarithmic scale"
    assert words in _bars([1.0] * 50 + [1e9])
    assert words not in _bars([2**20, 2**21])


def test_thirty_sizes_of_keys_have_room_for_their_labels() -> None:
    svg = size_histogram(sizes(*[1 / 30] * 30, first=1), name="many", what="sizes")
    labels = re.findall(r">([0-9]+[KMG]?)</text>", svg)
    assert labels[:3] == ["1", "16", "256"]


def test_a_user_s_own_style_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 40\nsvg.fonttype: path\nxtick.major.pad: 30\n", encoding="utf-8")
    script = "from tests.page.test_figures import _histogram; print(_histogram())"
    environment = {**os.environ, "MATPLOTLIBRC": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == _histogram()


def test_a_page_leaves_no_file_where_matplotlib_was_never_used(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("XDG_") and name != "MPLCONFIGDIR"
    }
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    script = "from tests.page.test_figures import _histogram; import os; _histogram(); print(os.getenv('MPLCONFIGDIR'))"
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    assert (shown.stdout, shown.stderr) == ("None\n", "")
    assert [*home.rglob("*"), *temporary.rglob("*")] == []


def test_pages_load_neither_matplotlib_nor_a_screen_before_they_draw() -> None:
    script = "import sys, migrate.page.dry_run_page, migrate.page.run_page; print('matplotlib' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
