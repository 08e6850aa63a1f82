"""A disk that fills up in the middle of a switch: said in a sentence, and finished once there is space."""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migrate import MigrationError, Spec, cutover, finalize, rollback, run
from migrate.errors import ExitCode
from migrate.model.events import Event, Listener
from tests.support import make_store, numbered, raises, raw_spec, read_family, small_disk

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None, reason="only root may mount a disk"
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB."""
    with small_disk(tmp_path / "disk", "32m") as path:
        yield path


@pytest.fixture
def spec(disk: Path) -> Spec:
    """A store and its work_dir on that disk, migrated and verified."""
    spec = raw_spec(disk, make_store(disk / "old", numbered(500)), target={"path": None})
    run(spec)
    return spec


def filling(disk: Path, name: str) -> Listener:
    """Fills the disk to the last byte when the event comes."""

    def listener(event: Event) -> None:
        if event.name == name:
            with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(1 << 12)):
                    pass

    return listener


@pytest.mark.parametrize(
    ("verb", "event"),
    [
        (cutover, "cutover.started"),
        (cutover, "cutover.checked"),
        (cutover, "cutover.intended"),
        (cutover, "cutover.exchanged"),
        (cutover, "cutover.done"),
        (rollback, "rollback.started"),
        (rollback, "rollback.intended"),
        (rollback, "rollback.exchanged"),
        (rollback, "rollback.done"),
        (finalize, "finalize.started"),
    ],
)
def test_a_switch_is_finished_once_there_is_space(
    verb: Callable[..., object], event: str, spec: Spec, disk: Path
) -> None:
    if verb is not cutover:
        cutover(spec)
    with pytest.raises(MigrationError, match="No space left on device") as caught:
        verb(spec, on_event=filling(disk, event))
    assert caught.value.exit_code is ExitCode.FAILED
    assert "make space" in caught.value.hint
    assert read_family(disk / "old") == numbered(500), "whichever store stands there, it is whole"
    (disk / "filler").unlink()
    verb(spec)
    assert read_family(disk / "old") == numbered(500)


def test_what_a_full_disk_needs_to_be_finalized_may_be_removed_by_hand(spec: Spec, disk: Path) -> None:
    cutover(spec)
    filling(disk, "now")(Event("now"))
    raises(MigrationError, "No space left on device", finalize, spec)
    for name in ("chunks", "snapshot"):
        shutil.rmtree(spec.home / name)
    assert finalize(spec).state == "finalized"
