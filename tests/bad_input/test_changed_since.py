"""A migration that was begun, and is not the one that the command would go on with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, at_event, check_clear, raw_records
from tests.situations.begun import PLANS, plan_file, plan_restored
from tests.support import tree_state


@pytest.fixture
def stopped(raw: Migration) -> Migration:
    """It has finished about half of its chunks, and no more time."""
    raw.set("run", time_budget="0s")
    raw.fails(ExitCode.INTERRUPTED, "the time budget is used up", "run the same command again to resume")
    raw.set("run", time_budget="1h")
    return raw


ONE_MORE = """
from rocksdict import Options, Rdict
database = Rdict({path!r}, Options(raw_mode=True))
database[b"key-99999999"] = b"new"
database.close()
"""


def test_one_record_more_while_the_migration_runs_is_refused_before_it_is_published(raw: Migration) -> None:
    """The application was started too early: the new store would lack what it has written."""
    outcome = raw.run(before=at_event("verify.committed", ONE_MORE.format(path=str(raw.source))))
    check_clear(outcome, ExitCode.REFUSED, "changed since: store state")
    assert not raw.target.exists()
    raw.refused("changed since: store state")


def test_status_refuses_a_plan_that_cannot_be_read(stopped: Migration) -> None:
    (file,) = stopped.home.glob("plan-*.json")
    for change, said in PLANS.values():
        plan_file(change)(stopped)
        check_clear(stopped.run(verb="status"), ExitCode.REFUSED, str(file), *stopped.named(*said))
        plan_restored(stopped)


def a_log_entry(ledger: Path) -> Path:
    return min(ledger.glob("_delta_log/*.json"))


def a_data_file(ledger: Path) -> Path:
    return min(ledger.glob("*.parquet"))


@pytest.mark.parametrize("content", [b"{nonsense", b"", None], ids=["nonsense", "empty", "missing"])
@pytest.mark.parametrize("find", [a_log_entry, a_data_file])
def test_a_damaged_ledger_is_repaired_by_a_run_alone(
    stopped: Migration, find: Callable[[Path], Path], content: bytes | None
) -> None:
    file = find(stopped.home / "ledger")
    file.unlink() if content is None else file.write_bytes(content)
    before = tree_state(stopped.home)
    assert stopped.run(verb="status").code == ExitCode.DONE  # by the other copy of each row
    assert tree_state(stopped.home) == before
    report = stopped.completes({".": raw_records()})
    assert any("the ledger was damaged, and is repaired" in warning for warning in report["warnings"])


def test_a_ledger_that_lost_both_copies_of_a_row_is_repaired_by_a_run_alone(stopped: Migration) -> None:
    newest = max(stopped.home.glob("ledger/_delta_log/*.json"))
    for file in (newest, *stopped.home.glob("ledger/*.parquet")):
        file.write_bytes(b"")
    said = (str(stopped.home / "ledger"), "is damaged", "stateferry run SPEC repairs")
    check_clear(stopped.run(verb="status"), ExitCode.REFUSED, *stopped.named(*said))
    assert not stopped.target.exists()
    stopped.completes({".": raw_records()})


def test_verifying_a_published_directory_that_was_moved_away_is_refused(raw: Migration) -> None:
    raw.completes({".": raw_records()})
    raw.target.rename(raw.folder / "elsewhere")
    outcome = raw.run("--no-spark", "--quiet", verb="verify")
    check_clear(outcome, ExitCode.REFUSED, f"the published directory {raw.target} is not there", "move it back")
