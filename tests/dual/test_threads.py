"""Readers, scanners, writers and movers of one process at the same time.

Every third key is never deleted and has versions that only rise; the keys between come and go.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate import DualReadStore, State, StoreClosedError
from tests.dual.pairings import UPGRADE, Ground

COUNT = 3000
KEYS = [b"k%05d" % number for number in range(COUNT)]
KEPT = range(0, COUNT, 3)
Step = Callable[[random.Random], None]


def _value(version: int) -> bytes:
    return b"\xff" * 8 + b"%08d" % version


class Watcher:
    """One thread's view: versions never go back, and what is never deleted is there."""

    def __init__(self, store: DualReadStore) -> None:
        self._store = store
        self._seen: dict[bytes, int] = {}

    def get(self, rng: random.Random) -> None:
        key = KEYS[rng.choice(KEPT)]
        self._check(key, self._store.get(key))

    def multi_get(self, rng: random.Random) -> None:
        keys = [KEYS[number] for number in rng.sample(KEPT, 20)]
        for key, value in zip(keys, self._store.multi_get(keys), strict=True):
            self._check(key, value)

    def scan(self, rng: random.Random) -> None:
        start = rng.choice(KEPT)
        wanted = [KEYS[number] for number in KEPT if start <= number < start + 900]
        reverse = rng.random() < 0.5
        found = list(self._store.range(KEYS[start], wanted[-1] + b"\0", reverse=reverse))
        keys = [key for key, _ in found]
        assert keys == sorted(set(keys), reverse=reverse)
        values = dict(found)
        for key in wanted:
            self._check(key, values.get(key))

    def _check(self, key: bytes, value: bytes | None) -> None:
        assert value is not None, f"{key!r} was never deleted"
        version = int(value[8:])
        assert version >= self._seen.get(key, 0), f"{key!r} went back"
        self._seen[key] = version


class Writer:
    """Writes some keys that no other thread writes."""

    def __init__(self, store: DualReadStore, remainder: int) -> None:
        self._store = store
        self._kept = [number for number in KEPT if number // 3 % 2 == remainder]
        self._versions: dict[int, int] = {}

    def write(self, rng: random.Random) -> None:
        number = rng.choice(self._kept)
        version = self._versions[number] = self._versions.get(number, 0) + 1
        if rng.random() < 0.8:
            self._store.put(KEYS[number], _value(version))
        else:
            self._store.put_all([(KEYS[number], _value(version)), (KEYS[number + 1], None)])
        passing = KEYS[number + 2]
        self._store.delete(passing)
        assert self._store.get(passing) is None, "it is deleted, and no other thread writes it"


def _steps(store: DualReadStore, with_converge: bool) -> list[Step]:
    watchers = [Watcher(store) for _ in range(4)]
    steps = [watchers[0].get, watchers[1].get, watchers[2].multi_get, watchers[3].scan]
    steps += [Writer(store, remainder).write for remainder in (0, 1)]
    return [*steps, *([lambda _: _converge(store)] * 2 if with_converge else [])]


def _converge(store: DualReadStore) -> None:
    store.converge(20, 2)


@contextmanager
def _running(steps: list[Step], stop: threading.Event) -> Iterator[list[BaseException]]:
    """Each step again and again, in a thread of its own; what the threads ended by is found in the list afterwards."""
    ends: list[BaseException] = []

    def repeat(step: Step, seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not stop.is_set():
                step(rng)
        except BaseException as error:  # noqa: BLE001 - looked at in the test
            ends.append(error)
            stop.set() if not isinstance(error, StoreClosedError) else None

    threads = [threading.Thread(target=repeat, args=(step, seed)) for seed, step in enumerate(steps)]
    for thread in threads:
        thread.start()
    try:
        yield ends
    finally:
        for thread in threads:
            thread.join()


@pytest.fixture(params=[False, True], ids=["one database", "two databases"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    ground = Ground(tmp_path, UPGRADE, request.param)
    ground.make(dict.fromkeys(KEYS, b"%08d" % 0))
    return ground


@pytest.mark.parametrize("migrate_on_read", [False, True])
def test_threads_see_no_version_go_back_while_the_old_store_empties(ground: Ground, migrate_on_read: bool) -> None:
    converged, stop = threading.Event(), threading.Event()
    with ground.open(migrate_on_read=migrate_on_read) as store:
        store.on_converged(converged.set)
        with _running(_steps(store, with_converge=True), stop) as ends:
            assert converged.wait(120) or stop.is_set()
            stop.wait(0.3)  # the same goes on without an old store
            stop.set()
        assert ends == []
        assert store.is_converged


@pytest.mark.parametrize("moved", [0, COUNT // 2, COUNT])
def test_threads_whose_store_is_closed_get_an_error(ground: Ground, moved: int) -> None:
    store = ground.open()
    if moved:
        store.converge(moved, None)
    progressed, stop = threading.Event(), threading.Event()
    steps = _steps(store, with_converge=True)
    last = steps[0]
    steps[0] = lambda rng: (last(rng), progressed.set())[0]  # type: ignore[func-returns-value]
    with _running(steps, stop) as ends:
        assert progressed.wait(120)
        store.close()
    assert {type(error) for error in ends} == {StoreClosedError}
    assert len(ends) == len(steps)
    assert store.state is State.NOT_RUNNING
    ground.open().close()
