"""Chunks that ended and wait for a shared commit: whatever ends the run, none is rewritten or counted twice."""

from collections import Counter
from pathlib import Path

import pytest

from migrate import Spec, run
from migrate.batch.chunk.executor import in_process
from migrate.batch.context import Context
from migrate.batch.ledger import table
from migrate.batch.ledger import table as shared_commits
from migrate.batch.ledger.table import Ledger, Pace
from migrate.batch.run import run_with
from migrate.batch.stop import Stop
from migrate.errors import FencedError, InterruptedMigrationError, MigrationError, RejectedError
from migrate.model.events import Event
from migrate.model.ledger_row import Step
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import make_store, numbered, raw_spec, read_family, read_ledger

RECORDS = numbered(1500)
MOST_WAITING = 5


@pytest.fixture(autouse=True)
def slow_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_commits, "PACE", Pace(3600.0))


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return raw_spec(tmp_path, make_store(tmp_path / "old", RECORDS), run={"chunk_size": "4 KiB"})


def _committed(spec: Spec) -> int:
    return sum(row.step is Step.CHUNK for row in read_ledger(spec.home))


def _resume(spec: Spec, *, done: int) -> None:
    watch = StopAt()
    report = run(spec, on_event=watch)
    assert report.chunks_done_before == done
    assert watch.seen["chunk.started"] == report.chunks_planned - done
    assert report.totals.records_in == len(RECORDS)
    assert read_family(spec.base_dir / "new") == RECORDS


def test_a_killed_run_leaves_them_to_the_next_one(spec: Spec) -> None:
    with pytest.raises(StoppedError):
        run(spec, on_event=StopAt("chunk.finished", MOST_WAITING))
    assert _committed(spec) == 0
    _resume(spec, done=MOST_WAITING)


@pytest.mark.parametrize("when", ["before the data", "before the entry", "after the entry"])
def test_a_run_that_is_killed_in_their_commit_leaves_them_to_the_next_one(
    when: str, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = "write_part" if when == "before the data" else "write_new"
    real = getattr(table, step)
    stop = Stop()

    def be_killed(*arguments: object) -> None:
        if when == "after the entry":
            real(*arguments)
        raise StoppedError

    def listener(event: Event) -> None:
        if event.name == "chunk.finished" and not stop.is_requested:
            stop.request()
            monkeypatch.setattr(table, step, be_killed)

    with pytest.raises((StoppedError, FencedError)):  # of an entry that it does not know to be its own, it says so
        run_with(in_process, Context(spec, listener, stop=stop))
    monkeypatch.setattr(table, step, real)
    assert _committed(spec) == (when == "after the entry")
    _resume(spec, done=1)


def test_their_commit_is_refused_once_another_run_has_taken_over(spec: Spec) -> None:
    seen: Counter[str] = Counter()

    def take_over(event: Event) -> None:
        seen[event.name] += 1
        if seen["chunk.finished"] == MOST_WAITING and event.name == "chunk.finished":
            Ledger(spec.home, read_ledger(spec.home)[0].migration_id, "the other run")

    with pytest.raises(FencedError):
        run(spec, on_event=take_over)
    assert (_committed(spec), seen["chunk.committed"]) == (0, 0)
    _resume(spec, done=seen["chunk.finished"])


@pytest.mark.parametrize(
    ("limits", "error"),
    [({"max_rejects": 30, "on_reject": "skip"}, RejectedError), ({"on_reject": "fail"}, MigrationError)],
)
def test_they_are_committed_before_a_failure_is_told(
    limits: dict[str, object], error: type[MigrationError], tmp_path: Path
) -> None:
    """Only the second half of the records has some that the function rejects."""
    records = {key: value for key, value in RECORDS.items() if key > sorted(RECORDS)[750] or not key.endswith(b"7")}
    spec = raw_spec(
        tmp_path,
        make_store(tmp_path / "old", records),
        conversion={"function": "tests.shared.conversions:picky"},
        run={"chunk_size": "4 KiB", **limits},
    )
    watch = StopAt()
    with pytest.raises(error):
        run(spec, on_event=watch)
    assert _committed(spec) == watch.seen["chunk.finished"] > 1
    assert watch.seen["chunk.committed"] == 1


def test_they_are_committed_at_once_on_a_stop(spec: Spec) -> None:
    stop, seen = Stop(), StopAt()

    def listener(event: Event) -> None:
        seen(event)
        if seen.seen["chunk.finished"] == MOST_WAITING:
            stop.request()

    with pytest.raises(InterruptedMigrationError):
        run_with(in_process, Context(spec, listener, stop=stop))
    assert _committed(spec) == MOST_WAITING
    _resume(spec, done=MOST_WAITING)
