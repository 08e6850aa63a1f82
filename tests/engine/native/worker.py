"""Chunks in a process of its own, as a worker has them: `python -m tests.engine.native.worker FOLDER WHAT COUNT`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from formats import Conversion, get_format
from migrate.engine.engine import NewFamily, Passed
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.writing import TableOptions
from tests.engine.native.chunks import NATIVE, PORTABLE, create, hooks_of, key_range, work_on
from tests.support import KEY_VALUE, TIMESTAMPED, make_store, numbered

UPGRADE = Conversion(get_format(KEY_VALUE), get_format(TIMESTAMPED))
RECORDS = numbered(2000, value_size=100)
_WARM_UP = 10


class Worker:
    """Rewrites and compares chunks of one store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.old = make_store(folder / "old", RECORDS)
        file = folder / "whole.sst"
        self._expected = PORTABLE.rewrite(work_on(self.old, UPGRADE), hooks_of(), file, TableOptions())
        self._new = NewFamily(create(folder / "new", file), "default")

    def whole(self, name: object) -> None:
        """The whole store."""
        file = self._folder / f"{name}.sst"
        passed = NATIVE.rewrite(work_on(self.old, UPGRADE), hooks_of(), file, TableOptions())
        assert passed == self._expected._replace(engine="native")
        assert NATIVE.compare(work_on(self.old, UPGRADE), hooks_of(), self._new) is not None
        file.unlink()

    def chunk(self, name: object) -> None:
        """A part of it; it is not said of which engine's work a record is, but by its receipt."""
        work = work_on(self.old, UPGRADE, key_range(Random(str(name)), [*RECORDS]))
        made: list[Passed] = []
        for engine in (NATIVE, PORTABLE):
            file = self._folder / f"{name}-{engine.name}.sst"
            made.append(engine.rewrite(work, hooks_of(), file, TableOptions())._replace(engine=""))
            file.unlink(missing_ok=True)
        assert made[0] == made[1]
        assert NATIVE.digest(self._new, KeyRange(), lambda: None) == self._expected.written


def once(worker: Worker, _: int) -> None:
    worker.whole("one")


def forked(worker: Worker, count: int) -> None:
    """As PySpark's daemon does it, with a database open on both sides of RocksDB."""
    with open_read_only(worker.old):
        worker.whole("parent")
        children = []
        for number in range(count):
            if not (child := os.fork()):
                try:
                    worker.whole(number)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        worker.whole("parent")
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * count
        worker.whole("parent")


def threaded(worker: Worker, count: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(worker.whole, number) for number in range(count)]:
            done.result()


def flat(worker: Worker, count: int) -> None:
    """Neither memory nor files grow."""
    for number in range(_WARM_UP):
        worker.chunk(number)
    before = _resident(), len([*Path("/proc/self/fd").iterdir()])
    for number in range(count):
        worker.chunk(number)
    after = _resident(), len([*Path("/proc/self/fd").iterdir()])
    assert after[0] < before[0] + (16 << 20), (before, after)
    assert after[1] <= before[1], (before, after)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


WHATS: dict[str, Callable[[Worker, int], None]] = {"once": once, "forked": forked, "threaded": threaded, "flat": flat}

if __name__ == "__main__":
    WHATS[sys.argv[2]](Worker(Path(sys.argv[1])), int(sys.argv[3]))
