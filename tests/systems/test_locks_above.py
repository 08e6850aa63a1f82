"""A running application holds a lock above the directory that a spec, or an adapter, names."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from migrate import (
    DualReadStore,
    Spec,
    StoreLockedError,
    cutover,
    inspect,
    open_store,
    plan,
    rollback,
    run,
    snapshot,
)
from migrate.systems import get_system
from tests.shared.locks import LOCK_FILE, another_process
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_spec, make_store, numbered, tree_state

TOPOLOGY = "__CTAS_USERS_5__"
GUARDED = {
    "the application": ("state/app", ".lock"),
    "a named topology": (f"state/app/{TOPOLOGY}", ".lock"),
    "a RocksDB directory": ("state/app/0_0/rocksdb/kv", ".lock"),
    "a RocksDB directory of a named topology": (f"state/app/{TOPOLOGY}/0_0/rocksdb/kv", ".lock"),
    "an application of Kafka Streams 2": ("state/app", "0_0/.lock"),
    "a RocksDB directory of Kafka Streams 2": ("state/app/0_0/rocksdb/kv", "0_0/.lock"),
}


@pytest.fixture(params=list(GUARDED.values()), ids=list(GUARDED))
def named(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """The directory that is named, and the lock file above it, which is free."""
    path, lock = request.param
    app = tmp_path / "state/app"
    for task in ("0_0", f"{TOPOLOGY}/0_0"):
        make_store(app / task / "rocksdb/kv", numbered(20))
    (app / lock).touch()
    return tmp_path / path, app / lock


def _spec(path: Path, **sections: object) -> Spec:
    base = path.parents[len(path.parts) - path.parts.index("state") - 1]
    if "rocksdb" in path.parts:
        return make_spec(base, path, source_format=RAW, target_format=RAW, **sections)
    sections = {"source": {"store": "kv"}, **sections}
    return make_spec(base, path, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections)


IN_PLACE = {"path": None}


@pytest.mark.parametrize("target", [IN_PLACE, {"path": "new/app"}], ids=["in place", "published"])
def test_no_run_starts_while_the_application_holds_it(named: tuple[Path, Path], target: dict[str, object]) -> None:
    path, lock = named
    spec = _spec(path, target=target)
    with another_process(LOCK_FILE, lock):
        with pytest.raises(StoreLockedError, match=f"{lock} is held by process"):
            run(spec)
        assert not spec.home.exists()
        assert {"source.stopped"} <= {each.name for each in plan(spec).checks if each.outcome == "waiting"}
        assert lock in {file for owner in inspect(path).owners for file in owner.files}


def test_no_switch_is_made_while_the_application_holds_it(named: tuple[Path, Path]) -> None:
    path, lock = named
    spec = _spec(path, target=IN_PLACE)
    run(spec)
    before = tree_state(path)
    with another_process(LOCK_FILE, lock), pytest.raises(StoreLockedError, match=f"{lock} is held by process"):
        cutover(spec)
    assert tree_state(path) == before
    cutover(spec)
    before = tree_state(path)
    with another_process(LOCK_FILE, lock), pytest.raises(StoreLockedError, match=f"{lock} is held by process"):
        rollback(spec)
    assert tree_state(path) == before


@pytest.mark.parametrize("named", [GUARDED["the application"], GUARDED["a named topology"]], indirect=True)
def test_a_snapshot_waits_for_it(named: tuple[Path, Path]) -> None:
    path, lock = named
    spec = _spec(path, target=IN_PLACE, run={"source": "snapshot"})
    with another_process(LOCK_FILE, lock), pytest.raises(StoreLockedError, match=f"{lock} is held by process"):
        snapshot(spec)


def test_a_directory_is_published_only_if_the_application_stayed_stopped(named: tuple[Path, Path]) -> None:
    path, lock = named
    spec = _spec(path, target={"path": "new/app"})
    with _starting_at("publish.started", lock) as listen, pytest.raises(StoreLockedError, match="is held by process"):
        run(spec, on_event=listen)
    assert spec.target_path is not None
    assert not spec.target_path.exists()


@contextmanager
def _starting_at(name: str, lock: Path) -> Iterator[Callable[..., None]]:
    """A listener; at that event the application starts."""
    holding = another_process(LOCK_FILE, lock)

    def listen(event: object) -> None:
        if getattr(event, "name", None) == name:
            holding.__enter__()

    yield listen
    with suppress(AttributeError):  # it did not start
        holding.__exit__(None, None, None)


@pytest.mark.parametrize("where", ["0_0", f"{TOPOLOGY}/0_0"])
def test_an_adapter_or_a_store_is_not_opened_for_writing_while_another_process_holds_it(
    where: str, tmp_path: Path
) -> None:
    """The application has not opened this store yet."""
    store, lock = make_store(tmp_path / "app" / where / "rocksdb/kv", numbered(20)), tmp_path / "app/.lock"
    lock.touch()
    before = tree_state(store)
    with another_process(LOCK_FILE, lock):
        with pytest.raises(StoreLockedError, match=f"{lock} is held by process"):
            DualReadStore.open(store, source=KEY_VALUE, target=TIMESTAMPED)
        with pytest.raises(StoreLockedError, match=f"{lock} is held by process"):
            open_store(store, format=KEY_VALUE, read_only=False)
        open_store(store, format=KEY_VALUE).close()
    assert tree_state(store) == before
    DualReadStore.open(store, source=KEY_VALUE, target=TIMESTAMPED).close()


def test_locks_farther_up_are_none_of_the_application(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c/app"
    files = get_system("kafka-streams").layout.lock_files(path, [])
    assert {file.parent for file in files} == {path, *path.parents[:2]}
