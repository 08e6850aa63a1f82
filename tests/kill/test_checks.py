"""The checks of the kill harness see what they are there for, and it counts as a kill only what was one."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from migrate.batch.ledger.table import Ledger
from migrate.model.ledger_row import Step
from tests.kill.checks import CheckFailedError, Checks, Expected
from tests.kill.harness import Tally
from tests.kill.migrations import Migration
from tests.kill.plans import MOST_KILLS, Calm, Kill, plan_campaigns
from tests.kill.scenarios import APPLICATION, PROVOKED_BY, RAW_STORE, Kind, Scenario, owner, required_events
from tests.kill.zygote import Zygote
from tests.support import flip_byte, open_store, raises, read_ledger

RUN = Scenario(APPLICATION, ("run",), publishes=True)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    APPLICATION.make(folder)
    return folder


@pytest.fixture(scope="module")
def finished(template: Path, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Expected]:
    """A migration that nobody killed."""
    migration = Migration(RUN, template, tmp_path_factory.mktemp("finished"), zygote)
    checks = Checks(RUN, migration.base, look_for_leftovers=True)
    migration.perform("run")
    checks.after_end("run")
    return migration.base, checks.observed()


@pytest.fixture
def checks(finished: tuple[Path, Expected], tmp_path: Path) -> Checks:
    """Those of a copy of that migration."""
    base, expected = finished
    shutil.copytree(base, tmp_path / "base")
    checks = Checks(RUN, tmp_path / "base", look_for_leftovers=True, expected=expected)
    checks.after_end("run")
    return checks


def test_there_is_enough_to_be_killed(finished: tuple[Path, Expected]) -> None:
    _, expected = finished
    assert [len(ranges) >= 3 for ranges in expected.intervals.values()] == [True, True]
    assert len(expected.dead_letters) > 20


@pytest.mark.parametrize(
    "name",
    [
        "chunks/0_0/refunds/000001-0123456789ab.0.sst",
        "chunks/0_0/refunds/000001-0123456789ab.receipt.json",
        "chunks/0_0.refunds-1.breadcrumb",
        "new/0123456789ab/0_0/refunds/CURRENT",
        "snapshot.tmp/0_0/refunds/CURRENT",
        "snapshot/0_0/refunds/LOCK",
        "snapshot/0_0/orders/CURRENT",
        ".plan-0001.json.17.tmp",
        "plan-1.json",
        "run.lock.1",
    ],
)
def test_what_is_left_behind_is_found(name: str, checks: Checks) -> None:
    (checks.home / name).parent.mkdir(parents=True, exist_ok=True)
    (checks.home / name).touch()
    found = raises(CheckFailedError, "left behind", checks.after_end, "run")
    assert name in str(found).splitlines()[-1]


def test_an_empty_directory_is_found(checks: Checks) -> None:
    (checks.home / "new" / "0123456789ab").mkdir()
    raises(CheckFailedError, "new/0123456789ab/", checks.after_end, "run")


def test_chunks_are_left_behind_after_finalize(checks: Checks) -> None:
    raises(CheckFailedError, r"chunks/0_0/refunds/.+\.sst", checks.after_end, "finalize")


@pytest.mark.parametrize("name", ["new/.orders-app.stateferry-0123456789ab", "work/other"])
def test_what_lies_beside_the_target_is_found(name: str, checks: Checks) -> None:
    (checks.base / name).mkdir()
    raises(CheckFailedError, Path(name).name, checks.after_end, "run")


def _add_row(checks: Checks, step: Step) -> None:
    row = next(row for row in checks.rows if row.step is step)
    Ledger(checks.home, row.migration_id, "the next run").commit(row)


@pytest.mark.parametrize(
    ("step", "otherwise"), [(Step.CHUNK, "chunk was redone"), (Step.COMPARED, "range was compared again")]
)
def test_what_was_done_twice_is_found(step: Step, otherwise: str, checks: Checks) -> None:
    _add_row(checks, Step.COMPARED)
    checks.after_kill("run")
    _add_row(checks, step)
    raises(CheckFailedError, otherwise, checks.after_kill, "run")


def test_a_row_that_was_lost_is_found(checks: Checks) -> None:
    max((checks.home / "ledger" / "_delta_log").glob("*.json")).unlink()
    assert len(read_ledger(checks.home)) == len(checks.rows) - 1
    raises(CheckFailedError, "lost", checks.after_kill, "run")


def test_dead_letters_that_were_lost_are_found(checks: Checks) -> None:
    shutil.rmtree(checks.home / "dead-letters")
    raises(CheckFailedError, "dead letters", checks.after_end, "run")


def _change_a_byte(folder: Path) -> None:
    flip_byte(folder / "0_0" / ".checkpoint", 0)


def _change_a_mode(folder: Path) -> None:
    (folder / "0_0" / "rocksdb" / "refunds").chmod(0o700)


def _add_a_file(folder: Path) -> None:
    (folder / "0_1" / "rocksdb" / ".stateferry").touch()


@pytest.mark.parametrize("change", [_change_a_byte, _change_a_mode, _add_a_file])
@pytest.mark.parametrize("which", [APPLICATION.directory, RUN.published])
def test_any_change_to_an_application_is_found(which: str, change: Callable[[Path], None], checks: Checks) -> None:
    change(checks.base / which)
    raises(CheckFailedError, "changed", checks.after_end, "run")


def test_another_record_is_found(checks: Checks) -> None:
    with open_store(checks.base / RUN.published / "0_0" / "rocksdb" / "refunds") as store:
        store[b"k"] = b"v"
    raises(CheckFailedError, "records of orders-app/0_0/rocksdb/refunds", checks.after_end, "run")


def test_stores_may_be_swapped_one_by_one_but_only_whole(checks: Checks) -> None:
    old, new = (checks.base / folder / "0_0" / "rocksdb" / "refunds" for folder in (RUN.kind.directory, RUN.published))
    raises(CheckFailedError, "", checks.after_end, "cutover")
    shutil.rmtree(old)
    shutil.copytree(new, old)
    checks.after_kill("cutover")
    raises(CheckFailedError, "records of orders-app/0_1", checks.after_end, "cutover")
    raises(CheckFailedError, "rolled back", checks.after_end, "rollback")
    with open_store(old) as store:
        store[b"k"] = b"v"
    raises(CheckFailedError, "neither the old nor the new", checks.after_kill, "cutover")


def test_a_process_is_killed_where_it_was_told_to_be(template: Path, zygote: Zygote, tmp_path: Path) -> None:
    migration = Migration(RUN, template, tmp_path, zygote)
    checks = Checks(RUN, migration.base, look_for_leftovers=True)
    tally = Tally()
    kill = Kill("run", "chunk.committed", occurrence=2)
    tally.count(kill, migration.be_killed(kill))
    assert (tally.kills, tally.hits) == (1, Counter({"chunk.committed": 1}))
    assert [row.step for row in read_ledger(checks.home)] == [Step.RUN, Step.CHUNK, Step.CHUNK]
    for late in (Kill("run", None, after=300.0), Kill("run", "plan.stored")):
        tally.count(late, migration.be_killed(late))
    assert (tally.kills, tally.too_late, tally.not_sent) == (1, 1, 1)
    checks.after_end("run")


def test_a_command_that_fails_is_a_finding(template: Path, zygote: Zygote, tmp_path: Path) -> None:
    migration = Migration(RUN, template, tmp_path, zygote)
    (migration.base / RUN.published).mkdir(parents=True)
    raises(CheckFailedError, r"run ended with 6:\n(.|\n)*exists", migration.perform, "run")


def _run_events() -> list[str]:
    return [event for event in required_events() if owner(event) == "run" and event not in PROVOKED_BY]


def _calm(kind: Kind, *commands: str) -> tuple[Scenario, Calm]:
    events = {command: Counter({f"{command}.a": 1, f"{command}.b": 3}) for command in commands}
    events["run"] = Counter(dict.fromkeys(_run_events()[:-1], 2))
    return Scenario(kind, commands), Calm(events, dict.fromkeys(commands, 1.0))


def test_every_event_has_its_turn_and_a_seed_says_all() -> None:
    calm = dict([_calm(APPLICATION, "run"), _calm(RAW_STORE, "run", "cutover"), _calm(RAW_STORE, "run", "abandon")])
    events = _run_events()
    campaigns = list(islice(plan_campaigns(5, calm, events), 60))
    assert campaigns == list(islice(plan_campaigns(5, calm, events), 60))
    assert campaigns != list(islice(plan_campaigns(6, calm, events), 60))
    planned = Counter(kill.event for campaign in campaigns for kill in campaign.kills)
    assert [event for event in (*events, None) if planned[event] < 3] == []
    assert {len(campaign.kills) for campaign in campaigns} >= set(range(1, MOST_KILLS + 1))
    assert {campaign.gives_up for campaign in campaigns} == {True, False}
    firsts = {campaign.of("run")[0].event for campaign in campaigns if campaign.of("run")}
    assert events[-1] not in firsts  # sent after a kill only
