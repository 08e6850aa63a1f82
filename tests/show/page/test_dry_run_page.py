"""The page of `plan`: the verdict, the checks, the sample, the cost (`test_structure.py` has what both pages share)."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from migrate.dry_run.dry_run_report import DryRunReport, Verdict
from migrate.show.page.dry_run_page import dry_run_page
from tests.show.page.reading import Page
from tests.show.page.samples import check, cost, good_report, planned, refused_report

REPOSITORY = Path(__file__).parents[3]


def _with(report: DryRunReport, **changes: object) -> Page:
    return Page(dry_run_page(report.model_copy(update=changes)))


def test_failed_checks_come_first_and_others_are_marked_not_run() -> None:
    page = _with(
        good_report(), checks=(*good_report().checks, check("last.of.all", "it fails", "failed", fix="fix it"))
    )
    names = ["last.of.all", "source.stopped", "java.version", "spec.valid"]
    places = [page.text.index(name) for name in names]
    assert places == sorted(places)
    assert "1 failed, 1 waiting, 2 not run, 5 ok" in page.text
    assert "\u2013 not run" in page.text


@pytest.mark.parametrize(
    ("go", "sentence", "shown"),
    [
        (True, "go: nothing stands in the way", "✓ Go Nothing stands in the way."),
        (True, "go, once it is stopped: nothing else stands in the way", "✓ Go Once it is stopped: nothing else"),
        (True, "nothing to do: it is finalized", "✓ Nothing to do It is finalized."),
        (False, "no go: a run would fail: 3 of 9 rejected", "✕ No go A run would fail: 3 of 9 rejected."),
        (False, "gone are the records", "✕ No go Gone are the records."),
    ],
)
def test_the_verdict_is_one_line_in_words(go: bool, sentence: str, shown: str) -> None:
    verdict = Verdict(exit_code=0 if go else 3, go=go, sentence=sentence, next_step="do this")
    page = _with(good_report(), verdict=verdict)
    text = " ".join(page.text.split())
    assert shown in text
    assert "Next: do this" in text
    assert any(found.get("class") == f"banner {'good' if go else 'bad'}" for _, found in page.elements)


def test_sections_that_were_not_examined_are_named() -> None:
    page = Page(dry_run_page(refused_report()))
    assert page.text.count("Not examined: an earlier check failed.") == 4


def test_what_is_not_there_is_not_shown() -> None:
    report = good_report()
    none_left = {"chunks": (), "chunks_done": 3, "median_chunk": 0, "biggest_chunk": 0}
    text = _with(report, cost=report.cost.model_copy(update=none_left)).text
    assert "no chunk to rewrite" in text
    assert "No chunk to rewrite, 3 more done by earlier runs." in text
    assert [shown for shown in ("0 chunks", "Median chunk", "Largest chunk", "Size, estimated") if shown in text] == []


@pytest.mark.parametrize("outcome", ["failed", "warning"])
def test_rejects_are_one_finding(outcome: str) -> None:
    report = good_report()
    tried = report.tried.model_copy(update={"rejected": 4})
    said = f"4 of {tried.records:,} records cannot be converted"
    assert _with(report, tried=tried).text.count(said) == 1
    found = check("conversion.rejects", "few are rejected", outcome, said)
    assert _with(report, tried=tried, checks=(*report.checks, found)).text.count(said) == 1


def test_estimates_and_counts_are_distinguished() -> None:
    estimated = good_report()
    exact = estimated.found.model_copy(update={"exact": True})
    assert "~7,722,422" in Page(dry_run_page(estimated)).text
    page = _with(estimated, found=exact, is_estimate=False)
    assert "~" not in page.text
    assert "records, counted, in" in page.text
    assert "stopped" in page.text


def test_a_full_dry_run_speaks_of_every_record() -> None:
    tried = good_report().tried
    page = _with(good_report(), tried=tried.model_copy(update={"is_full": True, "records": 7_722_422}))
    assert "Every record, 7,722,422 of them, was" in " ".join(page.text.split())
    assert "None in the sample" not in page.text


def test_a_record_that_does_not_change_is_shown_once() -> None:
    page = Page(dry_run_page(good_report()))
    assert page.text.count("customer-0000017") == 1
    assert page.text.count("the same") == 3


def test_only_what_the_conversion_adds_is_marked() -> None:
    written = dry_run_page(good_report())
    assert set(re.findall("<mark>(.*?)</mark>", written)) == {"ffffffff ffffffff"}


@pytest.mark.parametrize("chunks", [1, 2, 2000])
def test_each_chunk_is_on_the_map_with_its_keys(chunks: int) -> None:
    plan = planned(1, chunks)
    written = dry_run_page(good_report().model_copy(update={"cost": cost(plan)}))
    page = Page(written)
    titles = page.attributes("title")
    assert len(titles) == chunks
    for chunk, title in zip(plan[1:], titles[1:], strict=True):
        assert str(chunk.keys) in title
        assert str(chunk.keys) in page.text


def test_too_little_space_is_reported() -> None:
    expensive = good_report().cost
    page = _with(good_report(), cost=expensive.model_copy(update={"free_bytes": 12 * 2**20}))
    assert "Not enough free space: a run needs 6.9 GiB more to start." in " ".join(page.text.split())
    page = _with(good_report(), cost=expensive.model_copy(update={"free_bytes": None}))
    assert "The free space is unknown." in page.text


def test_nothing_measured_and_nothing_read_is_a_page_too() -> None:
    report = good_report()
    page = _with(
        report,
        found=report.found.model_copy(update={"databases": (), "key_sizes": None, "value_sizes": None, "records": 0}),
        tried=report.tried.model_copy(
            update={"records": 0, "sampled": 0, "examples": (), "key_sizes": None, "program": None, "both_paths": 0}
        ),
        cost=report.cost.model_copy(
            update={"chunks": (), "records_per_second": None, "verified_per_second": None, "measured_records": 0}
        ),
        checks=(),
    )
    for words in ("no records were read", "not measured", "No checks were made", "No record was converted"):
        assert words in page.text


def test_every_template_travels_with_the_package() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["migrate.show.page"]
    files = [
        path
        for path in (REPOSITORY / "migrate/show/page").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert files
    names = [path.relative_to(REPOSITORY / "migrate/show/page").as_posix() for path in files]
    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)] == []
