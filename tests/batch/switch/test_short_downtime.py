"""A snapshot is migrated while the old application goes on; the new store is installed with the snapshot's position."""

import pytest

from migrate import RefusedError, cutover, finalize, rollback, run, snapshot, status, verify
from migrate.batch.home import load_plan
from migrate.model.events import SWITCH_EVENTS
from tests.batch.switch.support import (
    FIRST,
    FROM_SNAPSHOT,
    MOVED_ON_BY,
    PARTITIONS,
    STORES,
    TASKS,
    Application,
    StopAt,
    StoppedError,
    content,
    go_on,
    in_place_spec,
    write_to,
)
from tests.support import raises

CUTOVER = [name for name in SWITCH_EVENTS if name.startswith("cutover.")]
ROLLBACK = [name for name in SWITCH_EVENTS if name.startswith("rollback.")]
TAKEN = {"0_0/orders": 2350, "0_1/orders": 2365, "0_0/refunds": 208, "0_1/refunds": 230}
"""The fixture's own lines."""


def positions(app: Application) -> dict[str, str]:
    """The text of every `.position`."""
    return {str(path.relative_to(app.path)): path.read_text() for path in sorted(app.path.glob("*/*.position"))}


def checkpoints(app: Application) -> dict[str, str]:
    return {task: app.checkpoint(task).read_text() for task in TASKS}


def check_never_ahead(app: Application) -> None:
    """Whatever store the application finds now, it replays from where that one ends or from before."""
    for partition in PARTITIONS:
        reached = TAKEN[partition] + (MOVED_ON_BY if app.which(partition) == "old" else 0)
        offset = app.offset(partition)
        assert offset is None or offset <= reached, f"{partition}: {offset} is ahead of {reached}"


def test_the_migration_is_of_the_snapshot_and_the_live_stores_may_go_on(fresh: Application) -> None:
    spec, path = in_place_spec(fresh.base, fresh.path, **FROM_SNAPSHOT), fresh.path
    app = Application(fresh.base, path, spec)
    taken = snapshot(spec)
    assert (taken.store_partitions, status(spec).state) == (4, "snapshot taken")
    assert "delete.retention.ms" in taken.warnings[-1]
    raises(StoppedError, "", run, spec, on_event=StopAt("chunk.committed"))
    go_on(path)
    went_on = {partition: content(app.live(partition)) for partition in PARTITIONS}
    report = run(spec)
    assert report.state == "verified"
    assert any("delete.retention.ms" in warning for warning in report.warnings)
    plan = load_plan(spec.home)
    assert plan is not None
    assert any("delete.retention.ms" in warning for warning in plan.warnings)
    assert cutover(spec).state == "cut over"
    assert app.standing() == {"new"}, "the records of the snapshot, and no later one"
    assert {partition: content(app.shelved(partition)) for partition in PARTITIONS} == went_on
    assert verify(spec).verification.ok


def test_the_new_store_comes_with_the_position_of_the_snapshot(later: Application, app: Application) -> None:
    assert {later.offset(partition) for partition in PARTITIONS} == {each + MOVED_ON_BY for each in TAKEN.values()}
    left, theirs, taken = checkpoints(later), positions(later), positions(app)
    cutover(later.spec)
    for task in TASKS:
        lines = zip(later.checkpoint(task).read_text().splitlines(), left[task].splitlines(), strict=True)
        for now, then in lines:
            is_ours = any(f"-{store}-changelog" in then for store in STORES)
            assert now == (_lowered(then) if is_ours else then)
    ours = {f"{task}/{store}.position" for task in TASKS for store in STORES}
    assert positions(later) == {name: (taken if name in ours else theirs)[name] for name in theirs}
    assert {name for name in ours if theirs[name] == taken[name]} == set()


def _lowered(line: str) -> str:
    topic, number, offset = line.split(" ")
    return f"{topic} {number} {int(offset) - MOVED_ON_BY}"


def test_going_back_gives_the_old_stores_their_newer_positions(later: Application) -> None:
    old = {partition: content(later.live(partition)) for partition in PARTITIONS}
    rest, modes = later.files(), {path: path.stat().st_mode for path in later.path.glob("*/.checkpoint")}
    said = checkpoints(later), positions(later)
    cutover(later.spec)
    assert {path: path.stat().st_mode for path in later.path.glob("*/.checkpoint")} == modes
    rollback(later.spec)
    assert {partition: content(later.live(partition)) for partition in PARTITIONS} == old
    assert (checkpoints(later), positions(later)) == said
    assert {name: state[1:] for name, state in later.files().items()} == {name: rest[name][1:] for name in rest}


def test_the_position_is_never_ahead_of_the_store_in_place(later: Application) -> None:
    seen = StopAt(look=lambda _: check_never_ahead(later))
    cutover(later.spec, on_event=seen)
    rollback(later.spec, on_event=seen)
    assert set(seen.seen) == {*CUTOVER, *ROLLBACK}


@pytest.mark.parametrize("name", ["cutover.positioned", "cutover.exchanged", "cutover.old-set-aside", "cutover.done"])
def test_killed_in_the_cutover(name: str, later: Application) -> None:
    said = checkpoints(later), positions(later)
    raises(StoppedError, "", cutover, later.spec, on_event=StopAt(name, 2 if name == "cutover.exchanged" else 1))
    check_never_ahead(later)
    rollback(later.spec, on_event=StopAt(look=lambda _: check_never_ahead(later)))
    assert (later.standing(), checkpoints(later), positions(later)) == ({"old"}, *said)
    raises(StoppedError, "", cutover, later.spec, on_event=StopAt(name))
    cutover(later.spec, on_event=StopAt(look=lambda _: check_never_ahead(later)))
    assert later.standing() == {"new"}
    assert {partition: later.offset(partition) for partition in PARTITIONS} == TAKEN


@pytest.mark.parametrize("name", ["rollback.positioned", "rollback.exchanged", "rollback.done"])
def test_killed_in_the_rollback(name: str, later: Application) -> None:
    said = checkpoints(later), positions(later)
    cutover(later.spec)
    raises(StoppedError, "", rollback, later.spec, on_event=StopAt(name, 2 if name == "rollback.exchanged" else 1))
    check_never_ahead(later)
    rollback(later.spec)
    assert (later.standing(), checkpoints(later), positions(later)) == ({"old"}, *said)


def test_an_old_store_that_was_written_to_after_the_journal_keeps_its_own_position(later: Application) -> None:
    """The application was started in the middle of a half-done cut-over, where the old store still stood."""
    raises(StoppedError, "", cutover, later.spec, on_event=StopAt("cutover.positioned"))
    write_to(later.live(FIRST), key=b"later still")
    checkpoint = later.checkpoint("0_0")
    checkpoint.write_text(checkpoint.read_text().replace("orders-changelog 0 2350", "orders-changelog 0 5000"))
    raises(RefusedError, "the old store of 0_0/orders was written to since the cut-over began", cutover, later.spec)
    rollback(later.spec)
    assert later.offset(FIRST) == 5000
    assert later.offset("0_1/orders") == TAKEN["0_1/orders"] + MOVED_ON_BY


def test_a_position_that_the_application_dropped_is_no_hindrance(later: Application) -> None:
    """Exactly-once: no `.checkpoint` while it runs, and none after a kill."""
    later.checkpoint("0_0").unlink()
    (later.path / "0_0" / "orders.position").unlink()
    cutover(later.spec, on_event=StopAt(look=lambda _: _check_never_ahead_of("0_1", later)))
    assert {partition: later.offset(partition) for partition in PARTITIONS} == TAKEN
    assert (later.path / "0_0" / "orders.position").exists()
    rollback(later.spec)
    assert later.standing() == {"old"}
    assert not later.checkpoint("0_0").exists()
    assert not (later.path / "0_0" / "orders.position").exists()


def _check_never_ahead_of(task: str, app: Application) -> None:
    assert app.offset(f"{task}/orders") in (TAKEN[f"{task}/orders"], TAKEN[f"{task}/orders"] + MOVED_ON_BY)


def test_finalizing_frees_the_snapshot(later: Application) -> None:
    cutover(later.spec)
    finalize(later.spec)
    assert not (later.spec.home / "snapshot").exists()
    assert later.standing() == {"new"}
