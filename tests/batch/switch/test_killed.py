"""Switches that are killed at any point: whole stores at every instant, and the same command, or the way back, ends it.

A listener that raises leaves what a kill leaves: nothing of a switch is tidied up on the way out.
"""

import pytest

from migrate import RefusedError, abandon, cutover, finalize, rollback, run, status, verify
from migrate.model.events import SWITCH_EVENTS
from tests.batch.switch.support import LEFT_FOR_GOOD, PARTITIONS, Application, StopAt, StoppedError, content
from tests.support import raises, tree_state

ONCE = [(name, 1) for name in SWITCH_EVENTS]
CUTOVER = [point for point in ONCE if point[0].startswith("cutover.")] + [("cutover.exchanged", 3)]
ROLLBACK = [point for point in ONCE if point[0].startswith("rollback.")] + [("rollback.exchanged", 3)]
FINALIZE = [point for point in ONCE if point[0].startswith("finalize.")] + [("finalize.removed", 3)]
ABANDON = [point for point in ONCE if point[0].startswith("abandon.")]
BEFORE_THE_JOURNAL = ("cutover.started", "cutover.checked", "rollback.started")
UNBEGUN_OR_OVER = ("cutover.started", "cutover.checked", "cutover.committed")


def kept(app: Application) -> dict[str, dict[str, bytes]]:
    """Every file of the old stores, wherever they stand now."""
    return {
        partition: content(app.live(partition) if app.which(partition) == "old" else app.shelved(partition))
        for partition in PARTITIONS
    }


def test_every_event_of_a_switch_is_one_to_be_killed_at() -> None:
    assert {name for name, _ in CUTOVER + ROLLBACK + FINALIZE + ABANDON} == set(SWITCH_EVENTS)


@pytest.mark.parametrize(("name", "occurrence"), CUTOVER)
def test_a_killed_cutover_is_finished_by_the_next(name: str, occurrence: int, app: Application) -> None:
    old, rest, before = kept(app), app.files(), tree_state(app.path)
    stop = StopAt(name, occurrence)
    raises(StoppedError, "", cutover, app.spec, on_event=stop)
    assert stop.seen[name] == occurrence
    app.standing()
    assert app.files() == rest
    if name not in (*BEFORE_THE_JOURNAL, "cutover.committed"):
        _check_half_way(app, "cutting over")
    elif name != "cutover.committed":
        assert (status(app.spec).state, tree_state(app.path)) == ("verified", before)
        raises(RefusedError, "nothing of 'test' was cut over", rollback, app.spec)
    watch = StopAt(look=app.check_whole)
    report = cutover(app.spec, on_event=watch)
    assert report.state == status(app.spec).state == "cut over"
    assert app.standing() == {"new"}
    assert kept(app) == old
    assert app.files() == rest
    assert app.steps() == ["cutting-over", "cut-over"]


def _check_half_way(app: Application, state: str) -> None:
    """Every verb that is not its end says what is."""
    verb = "cutover" if state == "cutting over" else "rollback"
    assert status(app.spec).state == state
    before = tree_state(app.path)
    for refused in (run, verify):
        assert f"stateferry {verb} SPEC finishes" in raises(RefusedError, f"half way: {state}", refused, app.spec).hint
    raises(RefusedError, "not cut over", finalize, app.spec)
    raises(RefusedError, "holds old stores|in use", abandon, app.spec)
    assert tree_state(app.path) == before


@pytest.mark.parametrize(("name", "occurrence"), [point for point in CUTOVER if point[0] not in UNBEGUN_OR_OVER])
def test_a_half_done_cutover_is_taken_back_by_a_rollback(name: str, occurrence: int, app: Application) -> None:
    old, rest = kept(app), app.files()
    raises(StoppedError, "", cutover, app.spec, on_event=StopAt(name, occurrence))
    watch = StopAt(look=app.check_whole)
    rollback(app.spec, on_event=watch)
    assert app.standing() == {"old"}
    assert {partition: content(app.live(partition)) for partition in PARTITIONS} == old
    assert app.files() == rest
    assert {app.staged(partition).is_dir() for partition in PARTITIONS} == {True}
    if name == "cutover.exchanged":
        cutover(app.spec)
        assert app.standing() == {"new"}


@pytest.mark.parametrize(("name", "occurrence"), ROLLBACK)
def test_a_killed_rollback_is_finished_by_the_next(name: str, occurrence: int, app: Application) -> None:
    old, rest = kept(app), app.files()
    cutover(app.spec)
    stop = StopAt(name, occurrence, look=app.check_whole)
    raises(StoppedError, "", rollback, app.spec, on_event=stop)
    assert app.files() == rest
    if name not in (*BEFORE_THE_JOURNAL, "rollback.committed"):
        _check_half_way(app, "rolling back")
        raises(RefusedError, "a rollback is half done", cutover, app.spec)
    assert rollback(app.spec).state == status(app.spec).state == "rolled back"
    assert {partition: content(app.live(partition)) for partition in PARTITIONS} == old
    assert app.files() == rest
    assert {app.staged(partition).is_dir() for partition in PARTITIONS} == {True}


@pytest.mark.parametrize(("name", "occurrence"), FINALIZE)
def test_a_killed_finalize_is_finished_by_the_next(name: str, occurrence: int, app: Application) -> None:
    cutover(app.spec)
    before = tree_state(app.path)
    raises(StoppedError, "", finalize, app.spec, on_event=StopAt(name, occurrence))
    if name not in ("finalize.started", "finalize.committed"):
        assert status(app.spec).state == "finalizing"
        for refused in (run, rollback, verify, abandon):
            raises(RefusedError, "", refused, app.spec)
    assert finalize(app.spec).state == "finalized"
    assert {path.name for path in app.spec.home.iterdir()} == LEFT_FOR_GOOD
    assert tree_state(app.path) == before
    assert app.steps() == ["cutting-over", "cut-over", *["finalizing"] * _begun(app), "finalized"]


def _begun(app: Application) -> int:
    """Each attempt says that it begins."""
    return app.steps().count("finalizing")


@pytest.mark.parametrize(("name", "occurrence"), ABANDON)
def test_a_killed_abandon_is_finished_by_the_next(name: str, occurrence: int, app: Application) -> None:
    before = tree_state(app.path)
    raises(StoppedError, "", abandon, app.spec, on_event=StopAt(name, occurrence))
    assert status(app.spec).state == ("verified" if name == "abandon.started" else "not started")
    abandon(app.spec)
    assert list(app.spec.home.parent.iterdir()) == []
    assert tree_state(app.path) == before


def test_a_killed_abandon_does_not_hinder_the_next_migration_of_that_name(app: Application) -> None:
    raises(StoppedError, "", abandon, app.spec, on_event=StopAt("abandon.renamed"))
    run(app.spec)
    cutover(app.spec)
    raises(RefusedError, r"holds old stores", abandon, app.spec)
    rollback(app.spec)
    abandon(app.spec)
    assert list(app.spec.home.parent.iterdir()) == []


def test_killed_at_every_event_in_turn(app: Application) -> None:
    """Each attempt gets one event further than the one before, there and back."""
    old, rest = kept(app), app.files()
    for name in [name for name in SWITCH_EVENTS if name.startswith("cutover.")][:-1]:
        raises(StoppedError, "", cutover, app.spec, on_event=StopAt(name))
    cutover(app.spec)
    assert app.standing() == {"new"}
    for name in [name for name in SWITCH_EVENTS if name.startswith("rollback.")][:-1]:
        raises(StoppedError, "", rollback, app.spec, on_event=StopAt(name))
    rollback(app.spec)
    assert kept(app) == old
    assert app.files() == rest
