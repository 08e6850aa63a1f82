"""Cut-overs that must not start, and that nothing moves for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, SpecError, VerificationError, cutover, finalize, rollback, run, status
from migrate.errors import SourceChangedError, StoreLockedError
from migrate.events import Event
from tests.bad_input.test_locks import LOCK_FILE, OPEN_STORE, another_process
from tests.support import kafka_spec, open_store, raw_spec, tree_state
from tests.switching.support import (
    DATA,
    FIRST,
    PARTITIONS,
    Application,
    StopAt,
    StoppedError,
    content,
    in_place_spec,
    make_application,
    write_to,
)


@pytest.fixture
def fresh(folder: Path) -> Application:
    """Nothing has begun."""
    path = make_application(folder)
    return Application(folder, path, in_place_spec(folder, path))


def refuse(app: Application, said: str, *, verb: Callable[..., object] = cutover, spec: Spec | None = None) -> str:
    """The verb says so and what to do, and nothing moves; the hint."""
    before, steps = tree_state(app.path), app.steps()
    with pytest.raises((RefusedError, VerificationError), match=said) as refused:
        verb(spec or app.spec)
    assert refused.value.hint
    assert tree_state(app.path) == before
    assert app.steps() == steps
    return refused.value.hint


@pytest.mark.parametrize("verb", [cutover, rollback, finalize])
def test_what_has_not_begun(verb: Callable[..., object], fresh: Application) -> None:
    assert "stateferry run" in refuse(fresh, "has not begun", verb=verb)
    assert not fresh.spec.home.exists()


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("plan.stored", "not complete"),
        ("assemble.committed", "not complete"),
        ("verify.started", "not verified"),
    ],
)
def test_what_is_not_finished(point: str, said: str, fresh: Application) -> None:
    with pytest.raises(StoppedError):
        run(fresh.spec, on_event=StopAt(point))
    assert "stateferry run" in refuse(fresh, said)
    run(fresh.spec)
    assert cutover(fresh.spec).state == "cut over"


@pytest.mark.parametrize("mode", ["full", "off"])
def test_what_was_found_wrong(mode: str, fresh: Application) -> None:
    """Not even where nothing is to be verified: what is known to be wrong stays so."""

    def spoil(event: Event) -> None:
        if event.name == "assemble.ingested" and event.facts["store_partition"].id == FIRST:
            write_to(event.facts["folder"], family=DATA)

    with pytest.raises(VerificationError, match="1 extra"):
        run(fresh.spec, on_event=spoil)
    said = "nothing was cut over: a verification .* found the new stores wrong"
    refuse(fresh, said, spec=in_place_spec(fresh.base, fresh.path, run={"verify": mode}))
    assert run(fresh.spec).state == "verified"
    assert cutover(fresh.spec).state == "cut over"


def test_without_verification_where_the_spec_says_so(fresh: Application) -> None:
    spec = in_place_spec(fresh.base, fresh.path, run={"verify": "off"})
    assert run(spec).state == "assembled"
    assert "--unverified" in refuse(fresh, "are not verified", spec=spec)
    assert cutover(spec, unverified=True).state == "cut over"
    assert fresh.standing() == {"new"}


@pytest.mark.parametrize("file", [".lock", "0_1/rocksdb/refunds/LOCK"])
def test_an_application_that_runs(file: str, app: Application) -> None:
    with another_process(LOCK_FILE, app.path / file) as pid:
        assert "stop the application" in refuse(app, f"{file} is held by process {pid}")
    cutover(app.spec)
    with another_process(LOCK_FILE, app.path / file) as pid:
        refuse(app, f"{file} is held by process {pid}", verb=rollback)
    assert rollback(app.spec).state == "rolled back"


def test_a_new_store_that_somebody_has_open(app: Application) -> None:
    with another_process(OPEN_STORE, app.slot(FIRST)), pytest.raises(StoreLockedError):
        cutover(app.spec)
    assert app.standing() == {"old"}


def test_an_application_that_is_started_in_the_middle(app: Application) -> None:
    """Its lock file was not there to be held, and nobody knows what it has opened."""
    (app.path / ".lock").unlink()
    holder = another_process(LOCK_FILE, app.path / ".lock")

    def start(event: Event) -> None:
        if event.name == "cutover.shelved":
            holder.__enter__()

    try:
        with pytest.raises(StoreLockedError, match=r"\.lock is held by process"):
            cutover(app.spec, on_event=start)
    finally:
        holder.__exit__(None, None, None)
    assert status(app.spec).state == "cutting over"
    assert cutover(app.spec).state == "cut over"


def test_a_source_that_was_written_to_since_the_run(app: Application) -> None:
    write_to(app.live(FIRST))
    refuse(app, "0_0/orders was written to since it was converted")


@pytest.mark.parametrize("point", ["cutover.started", "cutover.intended", "cutover.exchanged", "cutover.done"])
def test_nobody_opens_a_store_in_the_middle(point: str, app: Application) -> None:
    """RocksDB's own lock is held until the end: an application that is started in between says so, and stops."""
    tried = []

    def write(event: Event) -> None:
        if event.name == point:
            with pytest.raises(Exception, match=r"(?i)lock"):
                write_to(app.live(FIRST))
            tried.append(event)

    assert cutover(app.spec, on_event=write).state == "cut over"
    assert tried
    assert app.standing() == {"new"}


@pytest.mark.parametrize("written", [FIRST, PARTITIONS[-1]])
def test_an_old_store_that_is_written_to_while_a_cut_over_is_half_done(written: str, app: Application) -> None:
    """Never left behind silently: the way back leads to that write."""
    with pytest.raises(StoppedError):
        cutover(app.spec, on_event=StopAt("cutover.intended"))
    write_to(app.live(written))
    with pytest.raises(RefusedError, match="was written to since the cut-over began") as refused:
        cutover(app.spec)
    assert "stateferry rollback" in refused.value.hint

    rollback(app.spec)
    with open_store(app.live(written)) as database:
        assert database[b"late"] == b"x" * 20
    with pytest.raises(SourceChangedError):
        cutover(app.spec)


def test_a_new_store_that_was_written_to_before_the_cutover(app: Application) -> None:
    slot = app.slot(FIRST)
    write_to(slot, family=DATA)
    assert "remove that directory" in refuse(app, "was written to since it was assembled")
    shutil.rmtree(slot)
    refuse(app, "not complete")
    run(app.spec)
    assert cutover(app.spec).state == "cut over"
    assert app.standing() == {"new"}


def test_a_live_store_that_is_a_symbolic_link(fresh: Application, app: Application) -> None:
    for place in (fresh, app):
        elsewhere = place.live(FIRST).rename(place.base / "elsewhere")
        place.live(FIRST).symlink_to(elsewhere)
    refuse(fresh, "is a symbolic link, which cannot be exchanged", verb=run)
    assert not fresh.spec.home.exists()
    refuse(app, "is a symbolic link, which cannot be exchanged")


def test_a_work_dir_on_another_file_system(fresh: Application, tmp_path: Path) -> None:
    if tmp_path.stat().st_dev == fresh.path.stat().st_dev:
        pytest.skip("only one file system here")
    spec = in_place_spec(fresh.base, fresh.path, work_dir=str(tmp_path / "work"), run={"snapshot": "copy"})
    assert "put work_dir on the file system" in refuse(
        fresh, "are on different file systems or mounts", verb=run, spec=spec
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("foreign", ["notes.txt", "nested/CURRENT"])
def test_what_is_not_rocksdbs_would_go_with_the_old_store(foreign: str, lone: Spec, folder: Path) -> None:
    """And `finalize` would remove it."""
    theirs = lone.source_path / foreign
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("theirs")
    before = content(lone.source_path)
    anew = lone.model_copy(update={"name": "another"})
    for verb, spec in ((cutover, lone), (run, anew)):
        with pytest.raises(RefusedError, match="which is not RocksDB's") as refused:
            verb(spec)
        assert "move it elsewhere" in refused.value.hint
    assert content(lone.source_path) == before


@pytest.mark.parametrize("verb", [cutover, rollback])
def test_a_migration_that_publishes_has_nothing_to_exchange(verb: Callable[..., object], lone: Spec) -> None:
    for spec in (raw_spec(lone.base_dir, lone.source_path), kafka_spec(lone.base_dir, lone.source_path)):
        with pytest.raises(SpecError, match=r"publishes a new state directory, \[target\] path"):
            verb(spec)


def test_going_back_where_nothing_was_cut_over(app: Application) -> None:
    refuse(app, "nothing of 'test' was cut over", verb=rollback)


def test_going_back_after_the_end(app: Application) -> None:
    cutover(app.spec)
    finalize(app.spec)
    refuse(app, "the old stores are gone", verb=rollback)


def test_another_spec_than_the_one_that_was_run(app: Application) -> None:
    other = in_place_spec(app.base, app.path, conversion={"default_timestamp_ms": 7})
    refuse(app, "changed since: .conversion.", spec=other)
    cutover(app.spec)
    assert rollback(other).state == "rolled back"  # the way back asks the journal alone
