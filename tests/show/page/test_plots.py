"""Plots say the same in shapes, in texts, and to those who cannot see them."""

import re

import pytest

from migrate.model.display import size
from migrate.show.page.plots import Plot, RateOverTime, size_histogram, sorted_bars, throughput
from migrate.show.page.run_page import run_page
from tests.show.page.histories import good_history
from tests.show.page.samples import sizes


def _bars(values: list[float]) -> Plot:
    return sorted_bars(values, what="sizes", show=size, ends=("biggest", "smallest"), mark=(2**20, "[run] chunk_size"))


def _steps(plot: Plot) -> list[tuple[float, float, float]]:
    """(from, height, to) of each filled step; the height from the top."""
    found = re.findall(r"M([\d.]+) 100V([\d.]+)H([\d.]+)V100", plot.filled)
    return [(float(start), float(height), float(end)) for start, height, end in found]


def test_bars_stand_in_order_side_by_side() -> None:
    steps = _steps(_bars([2.0**20, 2.0**22, 2.0**21]))
    assert [(start, end) for start, _, end in steps] == [(0.0, 33.33), (33.33, 66.67), (66.67, 100.0)]
    heights = [100 - height for _, height, _ in steps]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.05) == pytest.approx(4 * heights[2], abs=0.1)


def test_a_level_and_a_bar_of_one_value_are_of_one_height() -> None:
    for values in ([2.0**20, 2.0**22], [1.0] * 50 + [1e9]):
        plot = _bars(values)
        assert _steps(plot)[0][1] == pytest.approx(plot.levels[-1][0], abs=0.01)
        assert plot.levels[-1][1] == size(max(values))
        assert plot.dashed == f"M0 {plot.notes[0].y:.2f}H100"


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [5.0] * 3000, [1.0, 2.0, 1e12], [3.0]])
def test_bars_of_any_numbers_can_be_drawn(values: list[float]) -> None:
    steps = _steps(_bars(values))
    assert len(steps) == len(values)
    assert all(0 <= height <= 100 for _, height, _ in steps)


def test_a_logarithmic_scale_is_labelled() -> None:
    assert "on a logarithmic scale" in _bars([1.0] * 50 + [1e9]).below
    assert "on a logarithmic scale" not in _bars([2**20, 2**21]).below


def test_a_histogram_labels_each_bar_where_there_is_room() -> None:
    plot = size_histogram(sizes(0.1, 0.7, 0.2), what="sizes of keys")
    assert [note.text for note in plot.notes] == ["10 %", "70 %", "20 %"]
    assert plot.description == "sizes of keys: half up to 13 B, 99 % up to 29 B, the largest 29 B"
    many = size_histogram(sizes(*[1 / 32] * 30, 2 / 32, first=1), what="sizes")
    assert [tick.text for tick in many.ticks] == ["1", "16", "256", "4K", "64K", "1M", "16M", "256M"]
    assert [note.text for note in many.notes] == ["6.2 %"]


@pytest.mark.parametrize(
    ("seconds", "word"), [(0.5, "seconds"), (90.0, "seconds"), (3000.0, "minutes"), (1e6, "hours")]
)
def test_throughput_has_round_numbers(seconds: float, word: str) -> None:
    plot = throughput(RateOverTime((0.0, seconds / 2, seconds), (1234.0, 617.0), ((seconds / 2, 60.0),)))
    assert plot.below == f"{word} of work"
    assert 3 <= len(plot.ticks) <= 6
    assert all(0 <= tick.x <= 100 for tick in plot.ticks)
    assert [label for _, label in plot.levels] == ["0", "500", "1k"]
    assert (plot.dashed, plot.notes[0].text) == ("M50.00 0V100", "after 1 min")


@pytest.mark.parametrize("starts", [(30.0, 35.0), (10.0, 20.0, 30.0, 40.0)], ids=["close together", "many"])
def test_some_pauses_are_lines_without_texts(starts: tuple[float, ...]) -> None:
    plot = throughput(RateOverTime((0.0, 50.0, 100.0), (5.0, 5.0), tuple((at, 60.0) for at in starts)))
    assert (plot.dashed, plot.notes) == ("".join(f"M{at:.2f} 0V100" for at in starts), ())


def test_a_page_draws_plots_in_its_own_colours() -> None:
    page = run_page(good_history())
    (plot, *_) = re.findall(r'<div class="plot".*?</svg>', page, re.DOTALL)
    assert 'role="img" aria-label="records per second over' in plot
    assert not re.search(r"#[0-9a-fA-F]{6}|fill=|stroke=|<style", plot)
