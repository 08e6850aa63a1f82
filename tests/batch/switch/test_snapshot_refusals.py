"""Snapshots that could not be brought up to date by the changelog, and snapshots that are not what they were."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, abandon, cutover, run, snapshot
from migrate.errors import SourceChangedError
from migrate.model.events import Event
from tests.batch.switch.support import (
    FIRST,
    FROM_SNAPSHOT,
    PARTITIONS,
    Application,
    StopAt,
    StoppedError,
    go_on,
    in_place_spec,
    write_to,
)
from tests.situations.switches import line_unknown
from tests.support import make_store, raises, tree_state


@pytest.fixture
def fresh(fresh: Application) -> Application:
    """Nothing has begun."""
    return replace(fresh, spec=in_place_spec(fresh.base, fresh.path, **FROM_SNAPSHOT))


def refuse(app: Application, verb: Callable[[Spec], object], said: str) -> str:
    """The verb says so, and leaves the application alone; the hint."""
    before = tree_state(app.path)
    refused = raises(RefusedError, said, verb, app.spec)
    assert tree_state(app.path) == before
    return refused.hint


def test_an_empty_store_has_no_position_to_know(fresh: Application) -> None:
    shutil.rmtree(fresh.live("0_1/orders"))
    make_store(fresh.live("0_1/orders"), {})
    line_unknown(fresh.checkpoint("0_1"))
    snapshot(fresh.spec)
    run(fresh.spec)
    cutover(fresh.spec)
    assert fresh.offset("0_1/orders") == -4


def test_a_snapshot_that_was_refused_is_never_run(fresh: Application) -> None:
    """The application ran for a moment while it was taken: positions and records may be of two moments."""

    def write(event: Event) -> None:
        if event.name == "source.checked":
            write_to(fresh.live(FIRST))

    raises(SourceChangedError, "changed while its snapshot was taken", snapshot, fresh.spec, on_event=write)
    refuse(fresh, run, "there is no snapshot")
    snapshot(fresh.spec)
    assert run(fresh.spec).state == "verified"


def test_a_snapshot_takes_the_place_of_an_earlier_one_until_it_is_converted(fresh: Application) -> None:
    snapshot(fresh.spec)
    go_on(fresh.path)
    snapshot(fresh.spec)
    raises(StoppedError, "", run, fresh.spec, on_event=StopAt("plan.stored"))
    assert "stateferry abandon" in refuse(fresh, snapshot, "has begun")
    run(fresh.spec)
    cutover(fresh.spec)
    assert fresh.offset(FIRST) == 3350, "of the second one"


def test_a_snapshot_removes_what_a_killed_one_had_written(fresh: Application) -> None:
    snapshot(fresh.spec)
    half_taken = fresh.spec.home / "snapshot-0123456789ab.tmp"
    shutil.copytree(fresh.spec.home / "snapshot", half_taken)
    (half_taken / "snapshot.json").unlink()
    snapshot(fresh.spec)
    assert not half_taken.exists()
    run(fresh.spec)


def test_the_snapshot_of_a_run_of_the_live_directory_is_not_taken_for_one(app: Application, folder: Path) -> None:
    """Nobody asked whether that one may be used while the application goes on."""
    write_to(app.live(FIRST))
    refuse(app, cutover, "was written to since it was converted")
    spec = in_place_spec(app.base, app.path, **FROM_SNAPSHOT)
    abandon(spec)
    snapshot(spec)
    run(spec)
    cutover(spec)
    assert [partition for partition in PARTITIONS if app.live(partition).is_dir()] == list(PARTITIONS)
