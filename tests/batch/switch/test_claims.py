"""What holds at every instant of a switch, and what gates it."""

import os
from pathlib import Path

import pytest

from migrate import cutover, rollback
from migrate.stores.files import can_exchange
from migrate.stores.lock import lock_holders
from tests.batch.switch.support import (
    DATA,
    PARTITIONS,
    TASKS,
    Application,
    StopAt,
    write_to,
)


def test_between_two_renames_no_store_partition_is_without_a_store(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange(app.base):
        pytest.skip("this file system cannot exchange two directories")
    real, moved = Path.rename, []

    def rename(path: Path, to: Path) -> Path:
        found = real(path, to)
        moved.append(to)
        assert all(app.live(partition).is_dir() for partition in PARTITIONS), f"{path} -> {to}"
        return found

    monkeypatch.setattr(Path, "rename", rename)
    cutover(app.spec)
    rollback(app.spec)
    assert len(moved) >= 2 * len(PARTITIONS), "each old store is shelved, and taken back"


@pytest.mark.parametrize("name", ["cutover.positioned", "cutover.exchanged", "cutover.old-set-aside"])
def test_no_process_can_open_the_stores_meanwhile(name: str, app: Application) -> None:
    """RocksDB and Kafka Streams take these locks first; what is exchanged takes its lock file with it."""
    locks = [app.path / ".lock", *(path / "LOCK" for path in map(app.live, PARTITIONS))]
    assert all(lock.exists() for lock in locks)
    held: list[set[Path]] = []
    cutover(app.spec, on_event=StopAt(look=lambda at: held.append(set(lock_holders(locks))) if at == name else None))
    assert held
    assert all(found == set(locks) for found in held)
    assert lock_holders(locks) == {}


@pytest.mark.parametrize("verb", ["cutover", "rollback"])
def test_every_move_is_synced_before_it_is_recorded(
    verb: str, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {path.parent for partition in PARTITIONS for path in (app.live(partition), app.staged(partition))}
    if verb == "rollback":
        cutover(app.spec)
    synced: set[Path] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").resolve())
        real(descriptor)

    def look(name: str) -> None:
        if name == f"{verb}.exchanged":
            synced.clear()
        elif name == f"{verb}.done":
            assert synced >= places

    monkeypatch.setattr(os, "fsync", fsync)
    watch = StopAt(look=look)
    (cutover if verb == "cutover" else rollback)(app.spec, on_event=watch)
    assert watch.seen[f"{verb}.done"] == 1


def test_a_rollback_lowers_positions_before_it_exchanges(app: Application) -> None:
    """The new version of the application ran: what it says of its position is ahead of the old stores."""
    before = {partition: app.offset(partition) for partition in PARTITIONS}
    cutover(app.spec)
    for partition in PARTITIONS:
        write_to(app.live(partition), family=DATA)
    for task in TASKS:
        version, count, *lines = app.checkpoint(task).read_text().splitlines()
        moved = [" ".join([*line.split(" ")[:2], str(int(line.split(" ")[2]) + 5000)]) for line in lines]
        app.checkpoint(task).write_text("\n".join([version, count, *moved, ""]))

    def look(name: str) -> None:
        if name in ("rollback.positioned", "rollback.exchanged", "rollback.done"):
            assert {partition: app.offset(partition) for partition in PARTITIONS} == before

    watch = StopAt(look=look)
    rollback(app.spec, discard_new_writes=True, on_event=watch)
    assert watch.seen["rollback.positioned"] == 1
