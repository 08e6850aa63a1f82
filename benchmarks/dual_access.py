"""The jobs of `benchmarks.lazy`: operations of a DualReadStore that take turns with those of bare rocksdict."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import Rdict, WriteBatch

from benchmarks.dual_stores import VALUE, copy, make_emptied, make_half, open_bare, open_dual, read_once
from benchmarks.rounds import rotated
from benchmarks.stores import key_of
from migrate.stores.rocks_store import RocksStore
from migrate.stores.state_store import StateStore

Facts = dict[str, Any]
Route = tuple[Callable[[list[bytes]], None], list[bytes]]
"""What is measured, and the keys that it is given, some at a time."""

OPERATIONS = 40_000
_SLICES = 40
BATCH = 100
TOUCHES = 5
SCANS = 40
SHORT, LONG = 10, 10_000


class _Keys:
    """Keys drawn by chance, other ones for each route: what one reads, another has not put into the cache."""

    def __init__(self, records: int, seed: int) -> None:
        self._half = records // 2
        self._chance = random.Random(seed)

    def moved(self, count: int = OPERATIONS) -> list[bytes]:
        """Those that are new in a half moved store, no key twice."""
        return [key_of(2 * number) for number in self._numbers(count)]

    def swept(self) -> list[bytes]:
        """Those that the sweep has passed, in a store of which it has moved half."""
        return [key_of(number) for number in self._numbers(OPERATIONS)]

    def old(self, count: int = OPERATIONS) -> list[bytes]:
        """Those that are still old there."""
        return [key_of(2 * number + 1) for number in self._numbers(count)]

    def unknown(self) -> list[bytes]:
        """Keys that no store has, between those that it has."""
        return [key_of(number) + b"+" for number in self._numbers(OPERATIONS)]

    def again_and_again(self) -> list[bytes]:
        """Still old at first; each comes about five times."""
        pool = self.old(OPERATIONS // TOUCHES)
        return self._chance.choices(pool, k=OPERATIONS)

    def starts(self, length: int) -> list[bytes]:
        """Where a scan of so many records may begin."""
        return [key_of(self._chance.randrange(2 * self._half - length)) for _ in range(SCANS)]

    def _numbers(self, count: int) -> list[int]:
        return self._chance.sample(range(self._half), count)


def _take_turns(routes: dict[str, Route]) -> Facts:
    """Microseconds of each for one key, in slices that take turns."""
    spent = {name: {"wall": 0.0, "cpu": 0.0} for name in routes}
    for number in range(_SLICES):
        for name in rotated(list(routes), number):
            act, keys = routes[name]
            share = len(keys) // _SLICES
            some = keys[number * share : (number + 1) * share]
            cpu, wall = time.process_time(), time.perf_counter()
            act(some)
            spent[name]["wall"] += (time.perf_counter() - wall) * 1e6 / len(keys)
            spent[name]["cpu"] += (time.process_time() - cpu) * 1e6 / len(keys)
    return {"routes": spent}


def _each(act: Callable[[bytes], object]) -> Callable[[list[bytes]], None]:
    def loop(keys: list[bytes]) -> None:
        for key in keys:
            act(key)

    return loop


def _putting(put: Callable[[bytes, bytes], None]) -> Callable[[list[bytes]], None]:
    def loop(keys: list[bytes]) -> None:
        for key in keys:
            put(key, VALUE)

    return loop


def _putting_items(database: Rdict) -> Callable[[list[bytes]], None]:
    def loop(keys: list[bytes]) -> None:
        for key in keys:
            database[key] = VALUE

    return loop


def _changing(get: Callable[[bytes], object], put: Callable[[bytes, bytes], None]) -> Callable[[list[bytes]], None]:
    def loop(keys: list[bytes]) -> None:
        for key in keys:
            get(key)
            put(key, VALUE)

    return loop


def _putting_all(store: StateStore) -> Callable[[list[bytes]], None]:
    def loop(keys: list[bytes]) -> None:
        for start in range(0, len(keys), BATCH):
            store.put_all([(key, VALUE) for key in keys[start : start + BATCH]])

    return loop


def _writing_batches(database: Rdict) -> Callable[[list[bytes]], None]:
    def loop(keys: list[bytes]) -> None:
        for start in range(0, len(keys), BATCH):
            batch = WriteBatch(True)
            for key in keys[start : start + BATCH]:
                batch[key] = VALUE
            database.write(batch)

    return loop


def _scanning(begin: Callable[[bytes], Iterable[object]], length: int) -> Callable[[list[bytes]], None]:
    return _each(lambda start: deque(islice(begin(start), length), 0))


@contextmanager
def _stores(resources: Iterable[Any]) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(resource) for resource in resources]


def gets(*, source: str, half: str, folder: str, arrangement: str, records: int, number: int) -> Facts:
    """One get, of a key that is still old, or new already."""
    place, keys = Path(folder), _Keys(records, number)
    bare_path = copy(Path(source), place / "bare")
    paths = [copy(Path(source), place / "begun"), copy(Path(half), place / "half"), copy(Path(half), place / "moving")]
    read_once(place)
    opened = [open_dual(path, arrangement, migrate_on_read=path.name == "moving") for path in paths]
    with _stores([open_bare(bare_path), *opened]) as (bare, begun, halfway, moving):
        return _take_turns(
            {
                "bare get": (_each(bare.get), keys.old()),
                "still old, nothing moved yet": (_each(begun.get), keys.old()),
                "still old, half moved": (_each(halfway.get), keys.old()),
                "still old, half moved, moved by the read": (_each(moving.get), keys.old()),
                "new already, half moved": (_each(halfway.get), keys.moved()),
                "in neither store, half moved": (_each(halfway.get), keys.unknown()),
                "bare get, not there": (_each(bare.get), keys.unknown()),
            }
        )


def puts(*, source: str, half: str, folder: str, arrangement: str, records: int, number: int) -> Facts:
    """One put, alone or in a batch, by what the old store has of the key."""
    place, keys = Path(folder), _Keys(records, number)
    names = ["old", "moved", "unknown", "mixed", "changed", "batched", "mixed-batches"]
    paths = [copy(Path(half), place / name) for name in names]
    paths += [copy(Path(f"{half}-swept"), place / name) for name in ("swept", "swept-batches")]
    bare_paths = [copy(Path(source), place / f"bare-{name}") for name in ("put", "change", "batch")]
    read_once(place)
    opened = [*map(open_bare, bare_paths), *(open_dual(path, arrangement) for path in paths)]
    with _stores(opened) as stores:
        bare, bare_changed, bare_batched, old, moved, unknown, mixed, changed, batched, batches, *swept = stores
        return _take_turns(
            {
                "bare put": (_putting_items(bare), keys.old()),
                "still old": (_putting(old.put), keys.old()),
                "new already": (_putting(moved.put), keys.moved()),
                "in neither store": (_putting(unknown.put), keys.unknown()),
                "moved by the sweep": (_putting(swept[0].put), keys.swept()),
                "each key five times": (_putting(mixed.put), keys.again_and_again()),
                "bare get and put": (_changing(bare_changed.get, bare_changed.put), keys.again_and_again()),
                "get and put, each key five times": (_changing(changed.get, changed.put), keys.again_and_again()),
                "bare batch": (_writing_batches(bare_batched), keys.old()),
                "put_all, still old": (_putting_all(batched), keys.old()),
                "put_all, moved by the sweep": (_putting_all(swept[1]), keys.swept()),
                "put_all, each key five times": (_putting_all(batches), keys.again_and_again()),
            }
        )


def scans(*, source: str, half: str, folder: str, arrangement: str, records: int, number: int) -> Facts:
    """Ranges of both stores merged, against those of a bare store that has all records."""
    place, keys = Path(folder), _Keys(records, number)
    bare_path = copy(Path(source), place / "bare")
    paths = [copy(Path(source), place / "begun"), copy(Path(half), place / "half")]
    read_once(place)
    opened = [open_bare(bare_path), *(open_dual(path, arrangement) for path in paths)]
    with _stores(opened) as (bare, begun, halfway):
        routes: dict[str, Route] = {}
        for length in (LONG, SHORT):
            bare_scan = _scanning(lambda start: bare.items(from_key=start), length)
            routes[f"bare, {length}"] = (bare_scan, keys.starts(length))
            routes[f"nothing moved yet, {length}"] = (_scanning(begun.range, length), keys.starts(length))
            routes[f"half moved, {length}"] = (_scanning(halfway.range, length), keys.starts(length))
        return _take_turns(routes)


def converged(half: str, folder: str, arrangement: str, records: int, number: int) -> Facts:
    """After the switch-off, without a restart; the plain store and the bare one are on the same database."""
    keys = _Keys(records, number)
    path = copy(Path(half), Path(folder) / "converged")
    with open_dual(path, arrangement) as store, ExitStack() as nothing:
        store.converge(None, None)
        for thread in threading.enumerate():
            if thread.name.startswith("compacting"):
                thread.join()
        store._family.flush()
        store._family.compact()
        plain = RocksStore(path, store._family, store._database, nothing)
        bare = store._family._open
        return _take_turns(_routes_of(keys, {"bare": bare, "plain": plain, "dual": store}))


def _routes_of(keys: _Keys, stores: dict[str, Any]) -> dict[str, Route]:
    routes: dict[str, Route] = {}
    for name, store in stores.items():
        put = _putting_items(store) if name == "bare" else _putting(store.put)
        routes[f"{name} get"] = (_each(store.get), keys.old())
        routes[f"{name} put"] = (put, keys.old())
        for length in (LONG, SHORT):
            begin = _items_from(store) if name == "bare" else store.range
            routes[f"{name} range, {length}"] = (_scanning(begin, length), keys.starts(length))
    return routes


def _items_from(database: Rdict) -> Callable[[bytes], Iterable[object]]:
    return lambda start: database.items(from_key=start)


def converge(source: str, folder: str, arrangement: str) -> Facts:
    """A whole store, in slices as from a punctuator; until it has switched itself off."""
    path = copy(Path(source), Path(folder) / "store")
    read_once(Path(folder))
    with open_dual(path, arrangement) as store:
        cpu, wall = time.process_time(), time.perf_counter()
        while not store.is_converged:
            store.converge()
        return {
            "seconds": {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu},
            "moved": store.progress.moved_by_converge,
        }


def open_emptied(emptied: str, folder: str, arrangement: str | None) -> Facts:
    """Milliseconds to open an old store in which everything was deleted; None: by rocksdict alone."""
    path = copy(Path(emptied), Path(folder) / "store")
    read_once(Path(folder))
    opened: Any = ExitStack()
    with opened:
        begun = time.perf_counter()
        opened.enter_context(open_bare(path) if arrangement is None else open_dual(path, arrangement))
        return {"milliseconds": (time.perf_counter() - begun) * 1e3}


JOBS: dict[str, Callable[..., Facts]] = {
    "make-half": make_half,
    "make-emptied": make_emptied,
    "dual-gets": gets,
    "dual-puts": puts,
    "dual-scans": scans,
    "dual-converged": converged,
    "dual-converge": converge,
    "dual-open": open_emptied,
}
