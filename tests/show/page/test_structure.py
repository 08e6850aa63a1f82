"""Both pages: all of a report, no markup of a store's, findings first, the rest folded, commands that are selected."""

import re
import shlex
from itertools import pairwise

import pytest

from migrate.dry_run.dry_run_report import DryRunReport
from migrate.model.run_history import RunHistory
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.page.rendering import commands, fitted
from migrate.show.page.run_page import run_page
from tests.show.page.histories import empty_history, good_history, ugly_history
from tests.show.page.hostile import HOSTILE, ugly_report
from tests.show.page.reading import Page, leaves
from tests.show.page.samples import check, cost, found, good_report, planned, refused_report

SINGULAR = good_report().model_copy(update={"found": found(1), "cost": cost(planned(1, 1))})
REPORTS: dict[str, DryRunReport | RunHistory] = {
    "go": good_report(),
    "no go": ugly_report(partitions=3, chunks=30),
    "refused": refused_report(),
    "one of each": SINGULAR,
    "done": good_history(),
    "mismatch": ugly_history(partitions=3, chunks_each=40),
    "not started": empty_history(),
}


def _page(report: DryRunReport | RunHistory) -> str:
    return dry_run_page(report) if isinstance(report, DryRunReport) else run_page(report)


PAGES = {name: _page(report) for name, report in REPORTS.items()}
EVERY_PAGE = pytest.mark.parametrize("written", PAGES.values(), ids=PAGES)
UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
SHOWN_IN_ANOTHER_FORM = {
    DryRunReport: re.compile(r"\.(outcome|role|sentence)$|\.positions\[\d+\]\.offset$"),
    RunHistory: re.compile(
        r"\.steps\[\d+\]\.(step|accepted\[\d+\]\.(kind|fix))$|\.totals\.(chunks|task_seconds)$|\.state$"
        r"|\.concerns\[\d+\]\.kind$|\.started_at_ms$"
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_everything_in_the_report_is_on_the_page(name: str) -> None:
    report, page = REPORTS[name], Page(PAGES[name])
    kind = RunHistory if isinstance(report, RunHistory) else DryRunReport
    values = [each for each in leaves(report) if not SHOWN_IN_ANOTHER_FORM[kind].search(each[0])]
    assert len(values) > (15 if kind is RunHistory else 30)
    assert [(where, leaf) for where, leaf in values if not page.has(leaf)] == []


@EVERY_PAGE
def test_the_page_is_well_formed_and_asks_for_nothing(written: str) -> None:
    page = Page(written)
    tags = {tag for tag, _ in page.elements}
    assert page.open == []
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "embed", "form", "base", "foreignobject"})
    assert all(href.startswith("#") for href in page.attributes("href"))
    assert [name for _, found in page.elements for name in found if name.startswith("on") or name == "src"] == []
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in page.attributes("href")} <= set(ids)
    assert page.elements[0] == ("html", {"lang": "en"})
    policies = [found["content"] for _, found in page.elements if found.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]
    assert not UNSHOWABLE.search(written)


@pytest.mark.parametrize(("report", "least"), [(ugly_report(), 50), (ugly_history(), 20)], ids=["plan", "report"])
def test_hostile_text_is_shown_and_nothing_of_it_is_markup(report: DryRunReport | RunHistory, least: int) -> None:
    written = _page(report)
    page = Page(written)
    assert page.text.count(HOSTILE[0]) > least
    assert "<script" not in written
    assert "<img" not in written
    assert "{{ 7 * 7 }}" in page.text
    assert not UNSHOWABLE.search(written)
    written.encode("utf-8")
    assert written == _page(report), "the same report is the same page"


@EVERY_PAGE
def test_headings_are_in_order_and_tables_have_headers(written: str) -> None:
    page = Page(written)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(below <= above + 1 for above, below in pairwise(levels))
    headers = [attributes.get("scope") for tag, attributes in page.elements if tag == "th"]
    assert set(headers) <= {"col", "row"}
    tags = [tag for tag, _ in page.elements]
    assert all(below == "summary" for above, below in pairwise(tags) if above == "details")


def test_findings_are_right_below_the_verdict_and_passed_checks_are_folded() -> None:
    tried = good_report().tried
    report = good_report().model_copy(
        update={
            "checks": (*good_report().checks, check("last.of.all", "it fails", "failed")),
            "tried": tried.model_copy(update={"rejected": 3, "losses_in_words": ("the timestamps are lost",)}),
        }
    )
    page = Page(dry_run_page(report))
    found = (
        "last.of.all",
        "source.stopped",
        "3 of 40,000 records",
        "timestamps are lost",
        "3.0 MiB of the write-ahead",
    )
    places = [page.text.index(words) for words in ("nothing else stands", *found, "On disk")]
    assert places == sorted(places)
    assert not any(words in page.folded for words in found)
    assert all(name in page.folded for name in ("spec.valid", "work_dir.space", "java.version"))
    assert "5 checks passed" in page.text
    assert "2 checks not run (needs a JVM: see `stateferry doctor`)" in page.text


def test_the_checks_of_spark_are_one_line() -> None:
    names = [f"spark.{name}" for name in ("java", "session", "tasks")]
    checks = tuple(check(name, "it is there", "not run", "needs a JVM") for name in names)
    page = Page(dry_run_page(good_report().model_copy(update={"checks": checks})))
    assert "3 checks of Spark not run (needs a JVM)" in page.text
    assert all(name in page.folded for name in names)


def test_one_of_each_is_in_the_singular() -> None:
    page = Page(PAGES["one of each"])
    for words in ("1 store partition", "1 chunk", "1 RocksDB directory"):
        assert words in " ".join(page.text.split())
    assert re.findall(r"\b1 (?:store partition|chunk|record|run|row|check|RocksDB directorie|slot)s\b", page.text) == []


@pytest.mark.parametrize("spec", ["SPEC", "orders.toml", "my specs/orders.toml", "it's <here>.toml", "../a/b"])
@pytest.mark.parametrize("options", ["", " --accept-rejects 30", " --discard-new-writes"])
def test_a_click_selects_a_command_as_a_shell_reads_it(spec: str, options: str) -> None:
    command = f"stateferry cutover {shlex.quote(spec)}{options}"
    for sentence in ("stop it; {}", "{} exchanges them", "{}; nothing else", "first {}, then wait: {}."):
        page = Page(str(commands(sentence.format(command, command))))
        assert page.text == sentence.format(command, command)
        assert page.attributes("class") == ["command"] * sentence.count("{}")
        code = re.findall('<code class="command">(.*?)</code>', str(commands(sentence.format(command, command))))
        assert {Page(each).text for each in code} == {command}


def test_a_sentence_that_only_names_a_verb_has_no_command() -> None:
    assert str(commands("new stores take their places at stateferry cutover; see <b>")).count("<") == 0
    assert str(commands("stateferry cutover exchanges them")) == "stateferry cutover exchanges them"


def test_a_column_that_says_the_same_in_every_row_is_a_remark() -> None:
    rows = [("a", "1", "vm"), ("b", "1", "vm")]
    table = fitted(rows, ("Chunk", "Records", "Host"), ("Records",), ("Host",))
    assert [cell.text for cell in table.columns] == ["Chunk", "Records"]
    assert [[cell.text for cell in row] for row in table.rows] == [["a", "1"], ["b", "1"]]
    assert table.same == (("Host", "vm"),)
    assert len(fitted(rows[:1], ("Chunk", "Records", "Host"), (), ("Host",)).columns) == 3
