"""What holds at every instant of a switch, and what gates it."""

from pathlib import Path

import pytest

from migrate import cutover, rollback
from migrate.stores.files import can_exchange
from migrate.stores.lock import lock_holders
from tests.batch.switch.support import FIRST, PARTITIONS, Application, StopAt, write_to
from tests.support import raises


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


@pytest.mark.parametrize("name", ["started", "checked", "intended", "positioned", "exchanged", "old-set-aside", "done"])
def test_no_process_can_open_the_stores_meanwhile(name: str, app: Application) -> None:
    """RocksDB and Kafka Streams take these locks first; what is exchanged takes its lock file with it."""
    locks = [app.path / ".lock", *(path / "LOCK" for path in map(app.live, PARTITIONS))]
    assert all(lock.exists() for lock in locks)
    held: list[set[Path]] = []

    def look(at: str) -> None:
        if at == f"cutover.{name}":
            held.append(set(lock_holders(locks)))
            raises(Exception, "(?i)lock", write_to, app.live(FIRST))

    cutover(app.spec, on_event=StopAt(look=look))
    assert held
    assert all(found == set(locks) for found in held)
    assert lock_holders(locks) == {}
    assert app.standing() == {"new"}
