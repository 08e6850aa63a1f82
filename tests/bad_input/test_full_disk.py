"""A disk that is too small, or fills up while the migration runs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from migrate import MigrationError, Spec, cutover, finalize, rollback, run
from migrate.errors import ExitCode
from migrate.model.events import Event, Listener
from tests.bad_input.support import (
    Migration,
    app_migration,
    at_event,
    check_clear,
    expected_orders,
    raw_migration,
    raw_records,
)
from tests.shared.commands import Commands
from tests.support import make_store, numbered, raises, raw_spec, read_family, small_disk

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None, reason="only root may mount a disk"
)

FILL = """
import contextlib, os
with open({filler!r}, "wb", buffering=0) as file, contextlib.suppress(OSError):
    while file.write(bytes(1 << 12)):
        pass
os.truncate({filler!r}, os.stat({filler!r}).st_size - {pages} * 4096)
"""


@pytest.fixture
def disk(folder: Path) -> Iterator[Path]:
    """A disk of 64 MiB."""
    with small_disk(folder / "disk", "64m") as path:
        yield path


def leave_free(disk: Path, size: int) -> None:
    """Make the disk so small that this many bytes are left."""
    total = shutil.disk_usage(disk).used + size
    subprocess.run(["mount", "-o", f"remount,size={total}", disk], check=True)


@pytest.mark.parametrize(("snapshot", "needed"), [("link", 1.2), ("copy", 2.2)])
def test_too_little_space_is_refused_before_anything_is_written(
    commands: Commands, disk: Path, snapshot: str, needed: float
) -> None:
    raw = raw_migration(commands, disk)
    raw.set("run", snapshot=snapshot, chunk_size="1 GiB")
    size = sum(len(key) + len(value) for key, value in raw_records().items())
    leave_free(disk, int((needed - 0.1) * size))
    raw.refused("work_dir", str(raw.home), "MiB free, the new stores may need 0.", "make space")
    planned = json.loads(raw.run("--json", verb="plan").out)
    assert planned["verdict"]["exit_code"] == ExitCode.REFUSED
    assert "MiB free, the new stores may need 0." in planned["verdict"]["sentence"]
    assert planned["cost"]["free_bytes"] < planned["cost"]["required_bytes"]
    assert not (raw.home / "snapshot").exists()
    leave_free(disk, 1 << 24)
    raw.completes({".": raw_records()})


def test_a_target_on_another_disk_that_is_too_small_is_refused_before_anything_is_written(
    app: Migration, disk: Path
) -> None:
    """Nothing can be hard-linked there: the whole state directory is copied."""
    app.set("target", path=str(disk / "new/orders-app"))
    leave_free(disk, 1 << 17)
    app.refused("[target] path", str(disk / "new/orders-app"), "MiB free", "are linked there")
    assert not (app.home / "snapshot").exists()


@pytest.mark.parametrize(
    "event",
    [
        "snapshot.taken",
        "plan.stored",
        "run.begun",
        "chunk.started",
        "chunk.finished",
        "chunk.committed",
        "dead-letters.written",
        "assemble.started",
        "assemble.ingested",
        "assemble.committed",
        "verify.started",
        "verify.committed",
        "publish.started",
    ],
)
def test_a_disk_that_fills_up_at_any_point_loses_nothing(commands: Commands, disk: Path, event: str) -> None:
    app = app_migration(commands, disk)
    filler = disk / "filler"
    filler.touch()
    fails_on_a_full_disk(app, event, filler)
    filler.unlink()
    app.completes(expected_orders())


@pytest.mark.parametrize("pages", [1, 2, 3])
def test_a_disk_that_has_room_for_a_part_of_a_ledger_commit(commands: Commands, disk: Path, pages: int) -> None:
    """The rows fit and the log entry does not, or the other way round."""
    raw = raw_migration(commands, disk)
    filler = disk / "filler"
    filler.touch()
    fails_on_a_full_disk(raw, "chunk.finished", filler, pages=pages)
    filler.unlink()
    raw.completes({".": raw_records()})


def test_a_disk_that_fills_up_while_dead_letters_are_written(commands: Commands, disk: Path) -> None:
    raw = raw_migration(commands, disk)
    raw.module("def convert(record):\n    return 1 / 0 if record.key.endswith(b'50') else record\n")
    raw.set("run", on_reject="dead-letter", max_rejects=40, chunk_size="1 GiB")
    filler = disk / "filler"
    filler.touch()
    for event in ("chunk.started", "chunk.committed"):
        fails_on_a_full_disk(raw, event, filler)
        filler.unlink()
        filler.touch()
    raw.completes({".": {key: value for key, value in raw_records().items() if not key.endswith(b"50")}})
    letters = DeltaTable(str(raw.home / "dead-letters"))
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in letters.file_uris()) == 40


def test_a_disk_that_fills_up_after_the_new_directory_appeared(commands: Commands, disk: Path) -> None:
    """The rename has happened, its row could not be written: the next run knows the directory as its own."""
    raw = raw_migration(commands, disk)
    filler = disk / "filler"
    outcome = raw.run(before=at_event("publish.renamed", FILL.format(filler=str(filler), pages=0)))
    check_clear(outcome, ExitCode.FAILED, "cannot write the ledger", "No space left", "run the same command again")
    filler.unlink()
    raw.completes({".": raw_records()})


@pytest.fixture
def migrated(disk: Path) -> Spec:
    """A store and its work_dir on that disk, migrated and verified."""
    spec = raw_spec(disk, make_store(disk / "old", numbered(500)), target={"path": None})
    run(spec)
    return spec


def filling(disk: Path, name: str) -> Listener:
    """Fills the disk to the last byte when the event comes."""

    def listener(event: Event) -> None:
        if event.name == name:
            exec(FILL.format(filler=str(disk / "filler"), pages=0), {})

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
    verb: Callable[..., object], event: str, migrated: Spec, disk: Path
) -> None:
    if verb is not cutover:
        cutover(migrated)
    with pytest.raises(MigrationError, match="No space left on device") as caught:
        verb(migrated, on_event=filling(disk, event))
    assert caught.value.exit_code is ExitCode.FAILED
    assert "make space" in caught.value.hint
    assert read_family(disk / "old") == numbered(500), "whichever store stands there, it is whole"
    (disk / "filler").unlink()
    verb(migrated)
    assert read_family(disk / "old") == numbered(500)


def test_what_a_full_disk_needs_to_be_finalized_may_be_removed_by_hand(migrated: Spec, disk: Path) -> None:
    cutover(migrated)
    filling(disk, "now")(Event("now"))
    raises(MigrationError, "No space left on device", finalize, migrated)
    for name in ("chunks", "snapshot"):
        shutil.rmtree(migrated.home / name)
    assert finalize(migrated).state == "finalized"


def fails_on_a_full_disk(migration: Migration, event: str, filler: Path, *, pages: int = 0) -> None:
    """Fill the disk when the run reaches the event: nothing is published, and the message is no riddle."""
    migration.fails(
        ExitCode.FAILED,
        "No space left on device",
        "make space on that disk, then run the same command again",
        before=at_event(event, FILL.format(filler=str(filler), pages=pages)),
    )
