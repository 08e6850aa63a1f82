"""Both pages: findings first, the rest folded, commands that a click selects, headings in order."""

import re
import shlex
from itertools import pairwise

import pytest

from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.page.rendering import commands, fitted
from migrate.show.page.run_page import run_page
from tests.show.page.histories import empty_history, good_history, ugly_history
from tests.show.page.hostile import ugly_report
from tests.show.page.reading import Page
from tests.show.page.samples import check, cost, found, good_report, planned, refused_report

SINGULAR = good_report().model_copy(update={"found": found(1), "cost": cost(planned(1, 1))})
PAGES = {
    "go": dry_run_page(good_report()),
    "no go": dry_run_page(ugly_report(partitions=3, chunks=30)),
    "refused": dry_run_page(refused_report()),
    "one of each": dry_run_page(SINGULAR),
    "done": run_page(good_history()),
    "mismatch": run_page(ugly_history(partitions=3, chunks_each=40)),
    "not started": run_page(empty_history()),
}
EVERY_PAGE = pytest.mark.parametrize("written", PAGES.values(), ids=PAGES)


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
    assert tried is not None
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
