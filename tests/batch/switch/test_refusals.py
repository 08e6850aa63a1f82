"""Cut-overs that must not start, and that nothing moves for."""

import pytest

from migrate import RefusedError, cutover, rollback, run, status
from migrate.errors import SourceChangedError, StoreLockedError
from migrate.model.events import Event
from tests.batch.switch.support import FIRST, PARTITIONS, Application, StopAt, StoppedError, in_place_spec, write_to
from tests.shared.disks import folder_elsewhere
from tests.shared.locks import LOCK_FILE, another_process
from tests.support import open_store


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


def test_a_work_dir_on_another_file_system(fresh: Application) -> None:
    with folder_elsewhere(fresh.path) as elsewhere:
        spec = in_place_spec(fresh.base, fresh.path, work_dir=str(elsewhere / "work"), run={"snapshot": "copy"})
        with pytest.raises(RefusedError, match="are on different file systems or mounts") as refused:
            run(spec)
        assert "put work_dir on the file system" in refused.value.hint
        assert list(elsewhere.iterdir()) == []
