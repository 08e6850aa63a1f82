"""Switching stores of segments: those come and go while their owner runs, and none is lost by a switch."""

import shutil
from pathlib import Path

import pytest

from migrate import abandon, cutover, finalize, plan, report, rollback, run, snapshot, status, verify
from migrate.errors import RefusedError, SourceChangedError
from migrate.show.page.run_page import run_page
from migrate.spec.spec import Spec
from tests.shared.windowed import (
    MINUTE,
    PLAIN,
    TIMESTAMPED,
    UNKNOWN,
    by_segment,
    checkpoint,
    make_segments,
    read_segments,
    records_of,
    retentions,
    window_key,
    windowed_spec,
    windows,
)
from tests.support import make_families, make_store, raises, tree_state

WINDOW = "kafka-streams.window"
TIMESTAMPED_WINDOW = "kafka-streams.timestamped-window"
SEGMENT = 15 * MINUTE
RECORDS = windows(80, until=4 * SEGMENT)
LATE = {window_key(b"late", 4 * SEGMENT): b"v"}
MOVED = retentions(2 * SEGMENT, 20 * MINUTE)
EITHER = pytest.mark.parametrize("sections", [{}, MOVED], ids=["as they are", "moved"])


def _spec(base: Path, **sections: object) -> Spec:
    return windowed_spec(base, WINDOW, TIMESTAMPED_WINDOW, **sections)


def _make(base: Path, task: str = "0_0") -> Path:
    store = base / "app" / task / "win"
    make_segments(store, RECORDS, SEGMENT)
    _stopped_at(base, 99, task)
    return store


def _stopped_at(base: Path, offset: int, task: str = "0_0") -> None:
    (base / "app" / task / ".checkpoint").write_text(checkpoint(f"app-win-changelog {task[-1]} {offset}"))


def _old(store: Path) -> dict[int, dict[bytes, bytes]]:
    return records_of(read_segments(store), PLAIN)


@EITHER
def test_every_verb_of_a_switch(sections: dict[str, object], tmp_path: Path) -> None:
    store = _make(tmp_path)
    spec = _spec(tmp_path, **sections)
    before = tree_state(tmp_path / "app")
    run(spec)
    assert status(spec).state == "verified"
    cutover(spec)
    new = records_of(read_segments(store), TIMESTAMPED)
    assert {key: value for mine in new.values() for key, value in mine.items()}.items() <= {
        (key, UNKNOWN + value) for key, value in RECORDS.items()
    }
    assert verify(spec).verification.ok
    rollback(spec)
    assert {name: state[1:] for name, state in tree_state(tmp_path / "app").items()} == {
        name: state[1:] for name, state in before.items()
    }
    assert verify(spec, mode="digest").verification.ok
    cutover(spec)
    assert records_of(read_segments(store), TIMESTAMPED) == new
    finalize(spec)
    assert records_of(read_segments(store), TIMESTAMPED) == new
    told = report(spec)
    assert {chunk.store_partition for chunk in told.chunks} == {"0_0/win"}
    assert "0_0/win" in run_page(told)


@EITHER
def test_what_is_given_up_leaves_the_segments(sections: dict[str, object], tmp_path: Path) -> None:
    store = _make(tmp_path)
    spec = _spec(tmp_path, **sections)
    run(spec)
    cutover(spec)
    rollback(spec)
    abandon(spec)
    assert _old(store) == by_segment(RECORDS, SEGMENT)
    assert not (tmp_path / "work/test").exists()


@EITHER
def test_a_segment_that_came_since_is_not_lost_by_a_cutover(sections: dict[str, object], tmp_path: Path) -> None:
    store = _make(tmp_path)
    run(_spec(tmp_path, **sections))
    make_store(store / f"win.{4 * SEGMENT}", LATE)
    with pytest.raises(SourceChangedError, match=f"segments of 0_0/win were added or removed: win.{4 * SEGMENT}"):
        cutover(_spec(tmp_path, **sections))
    assert _old(store) == {**by_segment(RECORDS, SEGMENT), 4 * SEGMENT: LATE}


def test_a_segment_that_went_since_does_not_come_back(tmp_path: Path) -> None:
    store = _make(tmp_path)
    run(_spec(tmp_path))
    shutil.rmtree(store / "win.0")
    with pytest.raises(SourceChangedError, match=r"were added or removed: win.0"):
        cutover(_spec(tmp_path))


@EITHER
def test_a_segment_that_came_since_is_not_lost_by_a_rollback(sections: dict[str, object], tmp_path: Path) -> None:
    """The application opened nothing else: older segments are as they were."""
    store = _make(tmp_path)
    spec = _spec(tmp_path, **sections)
    run(spec)
    cutover(spec)
    make_families(store / f"win.{4 * SEGMENT}", {TIMESTAMPED: LATE})
    raises(RefusedError, "going back loses that", rollback, spec)
    assert records_of(read_segments(store), TIMESTAMPED)[4 * SEGMENT] == LATE
    rollback(spec, discard_new_writes=True)
    assert _old(store) == by_segment(RECORDS, SEGMENT)


@EITHER
def test_an_application_that_went_on_since_its_snapshot_has_other_segments(
    sections: dict[str, object], tmp_path: Path
) -> None:
    """It replays what came since, and finds all that it had when it goes back."""
    store = _make(tmp_path)
    spec = _spec(tmp_path, run={"source": "snapshot"}, **sections)
    snapshot(spec)
    shutil.rmtree(store / "win.0")
    make_store(store / f"win.{4 * SEGMENT}", LATE)
    _stopped_at(tmp_path, 150)
    run(spec)
    went_on = _old(store)
    cutover(spec)
    assert f"win.{4 * SEGMENT}" not in {folder.name for folder in store.iterdir()}
    assert (tmp_path / "app/0_0/.checkpoint").read_text() == checkpoint("app-win-changelog 0 99")
    rollback(spec)
    assert _old(store) == went_on
    assert (tmp_path / "app/0_0/.checkpoint").read_text() == checkpoint("app-win-changelog 0 150")


@pytest.mark.parametrize("tasks", [("0_0",), ()], ids=["beside another one", "alone"])
def test_a_task_without_any_segment_is_no_obstacle(tasks: tuple[str, ...], tmp_path: Path) -> None:
    """Kafka Streams makes the directory at its first start, and segments with records."""
    for task in tasks:
        _make(tmp_path, task)
    empty = tmp_path / "app/0_1/win"
    empty.mkdir(parents=True)
    _stopped_at(tmp_path, -4, "0_1")
    spec = _spec(tmp_path)
    assert plan(spec).verdict.go
    assert run(spec).store_partitions == len(tasks) + 1
    assert (status(spec).state, status(spec).share_done) == ("verified", 1.0)
    for verb in (cutover, rollback, cutover):
        verb(spec)
        assert verify(spec).verification.ok
        assert list(empty.iterdir()) == []
    finalize(spec)
    assert list(empty.iterdir()) == []


def test_a_task_that_got_its_first_segment_since_is_not_cut_over(tmp_path: Path) -> None:
    _make(tmp_path)
    empty = tmp_path / "app/0_1/win"
    empty.mkdir(parents=True)
    _stopped_at(tmp_path, -4, "0_1")
    spec = _spec(tmp_path, run={"source": "snapshot"})
    snapshot(spec)
    make_store(empty / "win.0", {window_key(b"first", 0): b"v"})
    _stopped_at(tmp_path, 1, "0_1")
    run(spec)
    raises(SourceChangedError, "had no segment when its snapshot was taken, and has some now", cutover, spec)
    assert _old(empty) == {0: {window_key(b"first", 0): b"v"}}


def test_a_new_directory_is_not_published_once_every_segment_is_gone(tmp_path: Path) -> None:
    """Nothing of the old stores is left that could be compared, and that is a difference too."""
    store = _make(tmp_path)
    spec = _spec(tmp_path, target={"path": "new/app"})

    def remove(event: object) -> None:
        if getattr(event, "name", "") == "verify.committed":
            for folder in store.iterdir():
                shutil.rmtree(folder)

    raises(SourceChangedError, r"changed since: store 0_0/win win.0", run, spec, on_event=remove)
    assert not (tmp_path / "new/app").exists()
