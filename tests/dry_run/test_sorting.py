"""A plan says that a run sorts the new keys, why, and for what price."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from migrate.dry_run.estimate import Load, estimate, typical
from migrate.show.output import Output
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.text.plan_text import show_plan
from tests.dry_run.support import Planned, checks, failed, planned
from tests.support import make_store, numbered, raw_spec

RECORDS = numbered(2000, value_size=100)


def backwards(record: StateRecord) -> StateRecord:
    return replace(record, key=bytes(reversed(record.key)))


def three_of_ten(record: StateRecord) -> StateRecord:
    """Backwards, and to each new key come ten old ones."""
    return replace(record, key=bytes(reversed(record.key[:-1])))


def _planned(folder: Path, function: object = backwards, full: bool = False, **sections: Any) -> Planned:  # noqa: ANN401
    store = make_store(folder / "state", RECORDS)
    conversion = {"function": function, **sections.pop("conversion", {})}
    return planned(raw_spec(folder, store, conversion=conversion, **sections), full=full)


@pytest.mark.parametrize("full", [False, True])
def test_the_price_is_said(tmp_path: Path, full: bool) -> None:
    report = _planned(tmp_path, full=full, run={"wave_size": "100 KB"})
    assert report.verdict.exit_code == 0
    assert report.tried.out_of_order is not None  # and no fault
    sorting = report.sorting
    assert sorting is not None
    assert 200_000 < sorting.bytes < 300_000
    assert (sorting.wave_size, sorting.waves) == (100_000, 3)
    assert sorting.why.endswith("in state, once converted")
    made = {each.name: each for each in report.checks}
    assert (made["run.sort"].detail, made["conversion.keys"].detail) == (
        f"yes, by Spark: {sorting.why}",
        "they are sorted",
    )
    text, page = " ".join("\n".join(show_plan(report, Output())).split()), dry_run_page(report)
    for said in (text, page):
        assert "in 3 waves of at most 97.7 KiB ([run] wave_size), each of which reads the whole store" in said
        assert "about 4.5 times as long as without, and 15 s until" in said
    assert report.cost.other_seconds > 18  # Spark's start, and that of its SQL
    assert "the run sorts the new keys" in page
    assert "no chunk could be written" not in page


def test_a_piece_is_measured_in_spite_of_its_order(tmp_path: Path) -> None:
    report = _planned(tmp_path)
    assert report.cost.records_per_second is not None
    assert 100_000 < report.cost.new_bytes < 300_000


def test_without_sorting_nothing_is_said_of_it(tmp_path: Path) -> None:
    report = _planned(tmp_path, lambda record: record)
    assert report.sorting is None
    assert "Sorting" not in "\n".join(show_plan(report, Output()))
    assert 'id="sorting"' not in dry_run_page(report)


def test_an_order_that_only_the_larger_sample_shows_to_be_lost(tmp_path: Path) -> None:
    """A run decides by its own sample, so it would fail: the plan says so, and what to do."""

    def one_astray(record: StateRecord) -> StateRecord:
        return replace(record, key=b"zzz") if record.key == b"key-00001666" else record

    report = _planned(tmp_path, one_astray)
    assert report.sorting is None
    check = failed(report)["conversion.keys"]
    assert (check.exit_code, check.fix.partition(" lets")[0]) == (3, "[run] sort = true")
    assert _planned(tmp_path / "asked", one_astray, run={"sort": True}).verdict.go


@pytest.mark.parametrize("full", [False, True])
def test_what_becomes_of_collisions(tmp_path: Path, full: bool) -> None:
    report = _planned(tmp_path, three_of_ten, full=full)
    check = failed(report)["conversion.keys"]
    assert check.detail.startswith("two old keys become one: ")
    assert (check.exit_code, '[conversion] on_collision = "newest"' in check.fix) == (6, True)
    allowed = _planned(tmp_path / "allowed", three_of_ten, full=full, conversion={"on_collision": "newest"})
    assert checks(allowed, "warning")["conversion.keys"].detail.endswith("; the newest record of each key stays")
    assert allowed.verdict.go


def test_each_wave_costs_a_reading() -> None:
    def seconds(waves: int) -> float:
        return estimate(Load(store_bytes=1 << 30, piece=typical(100), slots=1, chunk_size=1 << 28, waves=waves)).rewrite

    assert 4 < seconds(1) / seconds(0) < 5
    assert seconds(3) - seconds(1) == pytest.approx(2 * seconds(0))
