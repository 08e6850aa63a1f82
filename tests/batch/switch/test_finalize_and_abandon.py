"""The two ends of a migration: giving up the way back, and giving up the migration."""

import shutil
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, abandon, cutover, finalize, rollback, run, status, verify
from tests.batch.switch.support import (
    FIRST,
    LEFT_FOR_GOOD,
    Application,
    StopAt,
    StoppedError,
    content,
    make_application,
)
from tests.support import kafka_spec, make_store, raises, raw_spec, read_families, read_ledger, tree_state


def test_finalizing_frees_all_but_the_ledger_and_leaves_the_application_alone(app: Application) -> None:
    cutover(app.spec)
    before = tree_state(app.path)
    report = finalize(app.spec)
    assert (report.state, report.old_stores) == ("finalized", None)
    assert {path.name for path in app.spec.home.iterdir()} == LEFT_FOR_GOOD
    assert tree_state(app.path) == before
    assert app.standing() == {"new"}


def test_a_finalized_migration_stays_finalized(app: Application) -> None:
    cutover(app.spec)
    totals = run(app.spec).totals
    first = finalize(app.spec)
    before = tree_state(app.path)
    assert finalize(app.spec) == first
    again = run(app.spec)
    assert (again.state, again.totals) == ("finalized", totals)
    assert status(app.spec).state == "finalized"
    assert cutover(app.spec).state == "finalized"
    for verb, said in ((rollback, "the old stores are gone"), (verify, "finalized"), (abandon, "in use")):
        raises(RefusedError, said, verb, app.spec)
    assert tree_state(app.path) == before


def test_a_published_migration_is_finalized_without_a_cutover(folder: Path) -> None:
    application = make_application(folder)
    spec = kafka_spec(folder, application)
    run(spec)
    before = tree_state(application), tree_state(folder / "new/orders-app")
    assert finalize(spec).state == "finalized"
    assert (tree_state(application), tree_state(folder / "new/orders-app")) == before
    assert {path.name for path in spec.home.iterdir()} == LEFT_FOR_GOOD
    assert run(spec).state == "finalized"


def test_sorted_runs_of_changelogs_are_removed_and_nothing_beside_them(app: Application) -> None:
    runs = app.spec.home / "changelog" / FIRST
    for name in ("tail-0001/keyValueWithTimestamp.sst", "times.sst", "times/CURRENT"):
        (runs / name).parent.mkdir(parents=True, exist_ok=True)
        (runs / name).touch()
    (runs / "notes.txt").touch()
    cutover(app.spec)
    assert finalize(app.spec).left_over == (runs / "notes.txt",)
    assert [file for file in runs.rglob("*") if file.is_file()] == [runs / "notes.txt"]


def test_abandoning_removes_our_files_and_no_other(app: Application) -> None:
    before = tree_state(app.path)
    report = abandon(app.spec)
    assert report.removed == app.spec.home
    assert list(app.spec.home.parent.iterdir()) == []
    assert tree_state(app.path) == before
    assert abandon(app.spec).removed is None
    assert status(app.spec).state == "not started"
    run(app.spec)
    assert cutover(app.spec).state == "cut over"


def test_a_migration_that_was_rolled_back_can_be_abandoned(app: Application) -> None:
    old = content(app.live(FIRST))
    cutover(app.spec)
    rollback(app.spec)
    abandon(app.spec)
    assert content(app.live(FIRST)) == old
    assert not app.spec.home.exists()


@pytest.mark.parametrize("point", ["cutover.exchanged", "cutover.old-set-aside", "cutover.committed"])
def test_old_stores_are_not_removed_even_where_the_ledger_is_gone(point: str, app: Application) -> None:
    raises(StoppedError, "", cutover, app.spec, on_event=StopAt(point))
    shutil.rmtree(app.spec.home / "ledger")
    raises(RefusedError, "holds old stores", abandon, app.spec)


def test_a_published_migration_is_not_given_up(folder: Path) -> None:
    spec = kafka_spec(folder, make_application(folder))
    run(spec)
    raises(RefusedError, "in use", abandon, spec)


def test_abandoning_a_run_that_was_publishing_removes_what_lies_beside_the_target(folder: Path, lone: Spec) -> None:
    spec = raw_spec(folder, lone.source_path)
    raises(StoppedError, "", run, spec, on_event=StopAt("plan.stored"))
    (run_id,) = {row.run_id for row in read_ledger(spec.home)}
    leftover = folder / f".new.stateferry-{run_id}"
    theirs = [folder / name for name in (".new.other", ".new.stateferry-0123456789ab")]
    for made in (leftover, *theirs):
        make_store(made, {b"a": b"b"})
    report = abandon(spec)
    assert not leftover.exists()
    assert [read_families(each)["default"] for each in theirs] == [{b"a": b"b"}] * 2
    assert report.left_over == (theirs[1],)
