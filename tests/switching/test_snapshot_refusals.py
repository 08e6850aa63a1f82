"""Snapshots that could not be brought up to date by the changelog, and snapshots that are not what they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, SpecError, abandon, cutover, run, snapshot
from migrate.errors import SourceChangedError, StoreLockedError
from migrate.events import Event
from tests.bad_input.test_locks import LOCK_FILE, another_process
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_spec, make_store, numbered, tree_state
from tests.switching.support import (
    FIRST,
    FROM_SNAPSHOT,
    PARTITIONS,
    Application,
    StopAt,
    StoppedError,
    go_on,
    in_place_spec,
    make_application,
    write_to,
)


@pytest.fixture
def fresh(folder: Path) -> Application:
    """Nothing has begun."""
    path = make_application(folder)
    return Application(folder, path, in_place_spec(folder, path, **FROM_SNAPSHOT))


def refuse(app: Application, verb: Callable[[Spec], object], said: str, spec: Spec | None = None) -> RefusedError:
    """The verb says so, says what to do, and leaves the application alone."""
    before = tree_state(app.path)
    with pytest.raises(RefusedError, match=said) as refused:
        verb(spec or app.spec)
    assert refused.value.hint
    assert tree_state(app.path) == before
    return refused.value


def test_without_a_snapshot_there_is_nothing_to_run(fresh: Application) -> None:
    error = refuse(fresh, run, "there is no snapshot")
    assert "stateferry snapshot" in error.hint
    assert not fresh.spec.home.exists()


def test_a_snapshot_for_a_migration_of_the_live_directory_is_a_mistake(folder: Path, fresh: Application) -> None:
    with pytest.raises(SpecError, match="converts the live directory"):
        snapshot(in_place_spec(folder, fresh.path))
    assert not fresh.spec.home.exists()


def test_a_snapshot_is_not_published(folder: Path, fresh: Application) -> None:
    with pytest.raises(SpecError, match=r"\[target\] path"):
        in_place_spec(folder, fresh.path, **FROM_SNAPSHOT, target={"path": "new"})


@pytest.mark.parametrize(
    ("source", "target", "conversion"),
    [
        (KEY_VALUE, TIMESTAMPED, {"function": "tests.migrate.conversions:shout", "allow": ["changelog"]}),
        (KEY_VALUE, RAW, {"allow": ["changelog"]}),
        (RAW, TIMESTAMPED, {"allow": ["changelog"]}),
    ],
    ids=["a function", "to raw", "from raw"],
)
def test_a_conversion_that_the_changelog_does_not_follow_is_refused(
    source: str, target: str, conversion: dict[str, object], fresh: Application, folder: Path
) -> None:
    stores = {} if source == RAW else {"store": "orders"}
    path = fresh.live(FIRST) if source == RAW else fresh.path
    spec = make_spec(
        folder,
        path,
        source_format=source,
        target_format=target,
        **{"source": stores, "target": {"path": None}, "conversion": conversion, **FROM_SNAPSHOT},
    )
    for verb in (snapshot, run):
        refuse(fresh, verb, "while the application goes on|cannot be migrated|no snapshot", spec)
    assert not spec.home.exists()


def test_a_lone_directory_has_no_changelog(folder: Path) -> None:
    source = make_store(folder / "state", numbered(10))
    for formats in ((RAW, RAW), (KEY_VALUE, TIMESTAMPED)):
        spec = make_spec(
            folder,
            source,
            source_format=formats[0],
            target_format=formats[1],
            **{"target": {"path": None}, **FROM_SNAPSHOT},
        )
        with pytest.raises(RefusedError, match="changelog"):
            snapshot(spec)
        assert not spec.home.exists()


def _remove(checkpoint: Path) -> None:
    checkpoint.unlink()


def _without_line(checkpoint: Path) -> None:
    lines = [line for line in checkpoint.read_text().splitlines() if "-orders-" not in line]
    checkpoint.write_text("\n".join([lines[0], str(len(lines) - 2), *lines[2:], ""]))


def _unknown(checkpoint: Path) -> None:
    checkpoint.write_text(checkpoint.read_text().replace("orders-changelog 1 2365", "orders-changelog 1 -4"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(_remove, "has no line for it"), (_without_line, "has no line for it"), (_unknown, "its position is unknown")],
)
def test_a_store_whose_position_is_not_known_is_refused(
    spoil: Callable[[Path], None], said: str, fresh: Application
) -> None:
    spoil(fresh.checkpoint("0_1"))
    error = refuse(fresh, snapshot, f"0_1/orders: .*{said}")
    assert "stop it cleanly" in error.hint
    assert not fresh.spec.home.exists()


def test_an_empty_store_has_no_position_to_know(fresh: Application) -> None:
    shutil.rmtree(fresh.live("0_1/orders"))
    make_store(fresh.live("0_1/orders"), {})
    _unknown(fresh.checkpoint("0_1"))

    snapshot(fresh.spec)
    run(fresh.spec)
    cutover(fresh.spec)

    assert fresh.offset("0_1/orders") == -4


def test_an_application_that_runs_is_refused(fresh: Application) -> None:
    with another_process(LOCK_FILE, fresh.path / ".lock"), pytest.raises(StoreLockedError, match="is held by process"):
        snapshot(fresh.spec)
    assert not fresh.spec.home.exists()


def test_a_snapshot_that_was_refused_is_never_run(fresh: Application) -> None:
    """The application ran for a moment while it was taken: positions and records may be of two moments."""

    def write(event: Event) -> None:
        if event.name == "source.checked":
            write_to(fresh.live(FIRST))

    with pytest.raises(SourceChangedError, match="changed while its snapshot was taken"):
        snapshot(fresh.spec, on_event=write)
    refuse(fresh, run, "there is no snapshot")
    snapshot(fresh.spec)
    assert run(fresh.spec).state == "verified"


def test_a_snapshot_takes_the_place_of_an_earlier_one_until_it_is_converted(fresh: Application) -> None:
    snapshot(fresh.spec)
    go_on(fresh.path)
    snapshot(fresh.spec)
    with pytest.raises(StoppedError):
        run(fresh.spec, on_event=StopAt("plan.stored"))
    error = refuse(fresh, snapshot, "has begun")
    assert "stateferry abandon" in error.hint
    run(fresh.spec)
    cutover(fresh.spec)
    assert fresh.offset(FIRST) == 3350, "of the second one"


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "*.log"])
def test_a_snapshot_that_was_written_to_is_refused(pattern: str, fresh: Application) -> None:
    """The file that is linked is changed in the live directory too, where nobody looks at it before the cut-over."""
    snapshot(fresh.spec)
    with pytest.raises(StoppedError):
        run(fresh.spec, on_event=StopAt("plan.stored"))
    taken = fresh.spec.home / "snapshot" / FIRST
    if pattern == "*.sst":
        with next(taken.glob(pattern)).open("ab") as file:
            file.write(b"more")
    else:
        write_to(taken)
    for verb in (run, cutover):
        refuse(fresh, verb, "not as copied|cannot open|not complete")


def test_a_snapshot_that_was_written_to_after_the_run_is_refused(later: Application) -> None:
    write_to(later.spec.home / "snapshot" / FIRST)
    refuse(later, cutover, "snapshot/0_0/orders is damaged: its files are not as copied")


@pytest.mark.parametrize(
    ("move", "said"),
    [
        ("came", "have come or gone since: 0_2/orders, 0_2/refunds"),
        ("went", "have come or gone since: 0_1/orders, 0_1/refunds"),
    ],
)
def test_tasks_that_came_or_went_since_are_refused(move: str, said: str, later: Application) -> None:
    if move == "came":
        shutil.copytree(later.path / "0_1", later.path / "0_2")
    else:
        shutil.rmtree(later.path / "0_1")
    error = refuse(later, cutover, said)
    assert "stateferry abandon" in error.hint


def test_the_snapshot_of_a_run_of_the_live_directory_is_not_taken_for_one(app: Application, folder: Path) -> None:
    """Nobody asked whether that one may be used while the application goes on."""
    write_to(app.live(FIRST))
    refuse(app, cutover, "was written to since it was converted")
    spec = in_place_spec(app.base, app.path, **FROM_SNAPSHOT)
    for verb in (cutover, run):
        refuse(app, verb, "was taken by a run, for itself alone", spec)
    abandon(spec)
    snapshot(spec)
    run(spec)
    cutover(spec)
    assert [partition for partition in PARTITIONS if app.live(partition).is_dir()] == list(PARTITIONS)
