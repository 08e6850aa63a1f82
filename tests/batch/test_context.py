"""One command and its standing: it follows each commit, and ends where another command has gone on meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from migrate.batch.chunk.executor import InProcessExecutor, here
from migrate.batch.chunk.processes import ProcessExecutor
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import claim, store_plan
from migrate.batch.ledger import delta_log
from migrate.batch.ledger import standing as standing_module
from migrate.batch.ledger.receipts_in_force import Revision
from migrate.batch.ledger.table import Ledger
from migrate.errors import FencedError, InterruptedMigrationError, RefusedError
from migrate.model.engine_choice import EngineChoice
from migrate.model.journal import Journal
from migrate.model.ledger_row import Step, chunk_row
from migrate.model.receipt import Receipt
from migrate.model.values import Stored
from tests.shared.builders import chunk, plan, receipt
from tests.support import raw_spec, read_ledger

ELSEWHERE: dict[str, tuple[Step, Stored]] = {
    "replaced the function": (Step.REVISED, Revision(number=1, function={"function": "another"}, by="me")),
    "switched these stores": (Step.CUT_OVER, Journal()),
}


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "old").mkdir()
    context = Context(raw_spec(tmp_path, tmp_path / "old"), command="verify")
    claim(context.home, tmp_path / "old")
    store_plan(context.home, plan(chunk()))
    Ledger(context.home, "m", "r1")
    return context


def test_a_command_reads_each_entry_of_the_ledger_once(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    parse, read = delta_log._parse, list[int]()

    def parsed(content: str, version: int, inode: int, where: str) -> delta_log.Entry:
        read.append(version)
        return parse(content, version, inode, where)

    monkeypatch.setattr(delta_log, "_parse", parsed)
    with command(context):
        context.commit(chunk_row(receipt()))
    assert read == [0, 1]


def _elsewhere(context: Context, step: Step = Step.ASSEMBLED, detail: Stored | None = None) -> None:
    ledger = Ledger(context.home, "m", "r2")
    ledger.commit(ledger.row(step, detail=detail or {"folder": "new", "state": {}}))


def test_the_standing_follows_each_commit_and_looks_for_each_file_once(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def look(each: Receipt, _: Path) -> bool:
        looked.append(each.attempt)
        return True

    monkeypatch.setattr(standing_module, "has_files", look)
    with command(context):
        stored = context.standing.plan
        for number, (start, end) in enumerate(((None, b"b"), (b"b", b"c"), (b"c", None))):
            context.commit(chunk_row(receipt(start, end, number=number)))
            assert [each.number for each in context.standing.receipts] == list(range(number + 1))
        assert context.standing.plan is stored
        assert context.standing.pending == []
    assert looked == ["000000-abc", "000001-abc", "000002-abc"]
    assert list(context.standing.rows) == read_ledger(context.home)
    assert context.standing.looked_at_again().receipts == context.standing.receipts
    assert len(looked) == 6


@pytest.mark.parametrize("what", ELSEWHERE)
def test_what_another_command_did_meanwhile_is_noticed_with_the_first_commit(what: str, context: Context) -> None:
    with command(context), pytest.raises(RefusedError, match=f"{what} .*meanwhile"):
        _elsewhere(context, *ELSEWHERE[what])
        context.record(Step.FAILED)


def test_a_command_that_gives_way_fences_no_other_off(context: Context) -> None:
    context.gives_way = True
    with command(context), pytest.raises(RefusedError, match="has continued the migration"):
        _elsewhere(context)
        context.record(Step.FAILED)
    assert [row.run_id for row in read_ledger(context.home)] == ["r1", "r2", "r2"]


def test_an_interruption_stays_one_after_another_run_has_taken_over(context: Context) -> None:
    with pytest.raises(InterruptedMigrationError), command(context):
        context.open_ledger("m")
        _elsewhere(context)
        raise InterruptedMigrationError("interrupted")


def test_an_error_after_another_run_has_taken_over_names_that_run(context: Context) -> None:
    with pytest.raises(FencedError, match="has taken over"), command(context):
        context.open_ledger("m")
        _elsewhere(context)
        raise ValueError


@pytest.mark.parametrize(
    ("sections", "is_threaded", "kind", "workers"),
    [
        ({}, True, InProcessExecutor, "2 threads"),
        ({}, False, ProcessExecutor, "2 processes"),
        ({"changelog": {"bootstrap": "localhost:1"}}, True, ProcessExecutor, "2 processes"),
    ],
    ids=["native", "python", "changelog"],
)
def test_threads_do_what_holds_no_lock_of_python(
    sections: dict[str, Any], is_threaded: bool, kind: type, workers: str, tmp_path: Path
) -> None:
    """Changelogs are written and read in Python."""
    context = Context(raw_spec(tmp_path, tmp_path / "old", **sections))
    context.engine = EngineChoice(setting="auto", names=("native",), is_threaded=is_threaded)
    with context.executor(here(2)) as executor:
        assert type(executor) is kind
        assert executor.slots == 2
    assert context.engine.workers == workers
