"""Cut-overs that must not start, and that nothing moves for."""

from pathlib import Path

import pytest

from migrate import RefusedError, cutover, rollback, run, status
from migrate.errors import SourceChangedError, StoreLockedError
from migrate.model.events import Event
from tests.batch.switch.support import (
    FIRST,
    PARTITIONS,
    Application,
    StopAt,
    StoppedError,
    in_place_spec,
    make_application,
    write_to,
)
from tests.shared.disks import folder_elsewhere
from tests.shared.locks import LOCK_FILE, another_process
from tests.support import open_store


@pytest.fixture
def fresh(folder: Path) -> Application:
    """Nothing has begun."""
    path = make_application(folder)
    return Application(folder, path, in_place_spec(folder, path))


def test_an_application_that_is_started_in_the_middle(app: Application) -> None:
    """Its lock file was not there to be held, and nobody knows what it has opened."""
    (app.path / ".lock").unlink()
    holder = another_process(LOCK_FILE, app.path / ".lock")

    def start(event: Event) -> None:
        if event.name == "cutover.old-set-aside":
            holder.__enter__()

    try:
        with pytest.raises(StoreLockedError, match=r"\.lock is held by process"):
            cutover(app.spec, on_event=start)
    finally:
        holder.__exit__(None, None, None)
    assert status(app.spec).state == "cutting over"
    assert cutover(app.spec).state == "cut over"


@pytest.mark.parametrize("point", ["cutover.started", "cutover.intended", "cutover.exchanged", "cutover.done"])
def test_no_process_opens_a_store_in_the_middle(point: str, app: Application) -> None:
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


def test_without_verification_where_the_spec_allows_it(fresh: Application) -> None:
    spec = in_place_spec(fresh.base, fresh.path, run={"verify": "off"})
    assert run(spec).state == "assembled"
    with pytest.raises(RefusedError, match="are not verified") as refused:
        cutover(spec)
    assert "--unverified" in refused.value.hint
    assert fresh.standing() == {"old"}
    assert cutover(spec, unverified=True).state == "cut over"
    assert fresh.standing() == {"new"}


def test_a_work_dir_on_another_file_system(fresh: Application) -> None:
    with folder_elsewhere(fresh.path) as elsewhere:
        spec = in_place_spec(fresh.base, fresh.path, work_dir=str(elsewhere / "work"), run={"snapshot": "copy"})
        with pytest.raises(RefusedError, match="are on different file systems or mounts") as refused:
            run(spec)
        assert "put work_dir on the file system" in refused.value.hint
        assert list(elsewhere.iterdir()) == []
