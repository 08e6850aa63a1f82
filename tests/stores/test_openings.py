"""How often RocksDB directories are opened: to open one costs time for each column family and file in it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrate import run
from migrate.errors import CorruptionError, RefusedError
from migrate.stores.files import remove_tree
from migrate.stores.rocksdb import openings
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.openings import keeping_open, open_pooled
from tests.support import (
    flip_byte,
    make_families,
    make_store,
    numbered,
    open_store,
    raw_spec,
    read_families,
)


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name for each opening: a directory of links is made for it."""
    made: list[str] = []
    make = tempfile.mkdtemp

    def counted(*arguments: Any, **options: Any) -> str:  # noqa: ANN401 - whatever it takes
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", counted)
    return made


@pytest.mark.parametrize("verify", ["full", "digest"])
def test_more_column_families_take_no_more_openings(tmp_path: Path, views: list[str], verify: str) -> None:
    openings = []
    for count in (2, 12):
        folder = tmp_path / str(count)
        families = {"default": numbered(20), **{f"family-{number}": numbered(20) for number in range(count)}}
        source = make_families(folder / "old", families)
        views.clear()
        run(raw_spec(folder, source, run={"verify": verify}))
        openings.append(len(views))
        assert read_families(folder / "new") == families
    assert openings[0] == openings[1]
    assert not [view for view in views if Path(view).exists()]


@pytest.mark.parametrize("verify", ["full", "digest"])
def test_more_chunks_take_no_more_openings(tmp_path: Path, views: list[str], verify: str) -> None:
    openings = []
    for size in (1 << 20, 1 << 12):
        folder = tmp_path / str(size)
        source = make_store(folder / "old", numbered(2000))
        views.clear()
        report = run(raw_spec(folder, source, run={"verify": verify, "chunk_size": size}))
        openings.append((report.chunks_planned, len(views)))
    (few, once), (many, again) = openings
    assert many > 10 * few
    assert again <= once + 1  # a store that was compared in parts is opened again for the gaps


def _is_open(database: Database) -> bool:
    try:
        return [*database.batches("default")] != []
    except Exception:  # noqa: BLE001 - rocksdict's own
        return False


def _eventually_closed(database: Database) -> bool:
    deadline = time.monotonic() + 60
    while _is_open(database) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _is_open(database)


def test_what_a_task_has_opened_serves_the_next_one_alone(tmp_path: Path, views: list[str]) -> None:
    directory = make_store(tmp_path / "old", numbered(10))
    with open_pooled(directory) as first:
        pass
    with open_pooled(directory) as second, open_pooled(directory) as third:
        assert second is first
        assert third is not first  # no two tasks have the same
    assert len(views) == 2
    assert [_is_open(each) for each in (second, third)].count(True) == 1


def test_a_task_that_fails_closes_its_database(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "old", numbered(10))
    with pytest.raises(RefusedError), open_pooled(directory) as database:
        raise RefusedError("the task failed")
    assert not _is_open(database)


def test_the_last_user_closes_what_is_kept(tmp_path: Path) -> None:
    with keeping_open():
        with keeping_open(), open_pooled(make_store(tmp_path / "old", numbered(10))) as database:
            pass
        assert _is_open(database)
    assert not _is_open(database)


def test_what_is_idle_is_closed_and_what_is_in_use_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "_IDLE_SECONDS", 0.05)
    with open_pooled(make_store(tmp_path / "a", numbered(10))) as used:
        for _ in range(2):  # the thread that closes ends when it has nothing to do, and begins again
            with open_pooled(make_store(tmp_path / "b", numbered(10))) as idle:
                pass
            assert _eventually_closed(idle)
            remove_tree(tmp_path / "b")
        assert _is_open(used)


def test_only_some_are_kept(tmp_path: Path) -> None:
    opened = []
    with keeping_open():
        for number in range(7):
            with open_pooled(make_store(tmp_path / str(number), numbered(10))) as database:
                opened.append(database)
        assert [_is_open(each) for each in opened] == [False] * 3 + [True] * 4


def _make_again(directory: Path) -> None:
    remove_tree(directory)
    make_store(directory, numbered(10, seed=1))


def _restore_another(directory: Path) -> None:
    """With the sizes and modification times of the files that were there."""
    times = {path.name: path.stat().st_mtime_ns for path in (directory, *directory.iterdir())}
    _make_again(directory)
    for path in (*directory.iterdir(), directory):
        os.utime(path, ns=(0, times.get(path.name, 0)))


def _go_on_writing(directory: Path) -> None:
    with open_store(directory) as owner:
        for key, value in numbered(10, seed=1).items():
            owner[key] = value


@pytest.mark.parametrize("change", [_make_again, _restore_another, _go_on_writing])
def test_a_directory_that_changed_is_opened_again(tmp_path: Path, change: Callable[[Path], None]) -> None:
    directory = make_store(tmp_path / "old", numbered(10))
    with open_pooled(directory):
        pass
    change(directory)
    with open_pooled(directory) as database:
        found = [pair for batch in database.batches("default") for pair in zip(batch.keys, batch.values, strict=True)]
    assert dict(found) == numbered(10, seed=1)


def _remove_table(directory: Path) -> None:
    (table,) = directory.glob("*.sst")
    table.unlink()


@pytest.mark.parametrize("remove", [remove_tree, _remove_table])
def test_what_is_gone_is_missed(tmp_path: Path, remove: Callable[[Path], None]) -> None:
    directory = make_store(tmp_path / "old", numbered(10))
    with open_pooled(directory) as database:
        assert _is_open(database)
    remove(directory)
    with pytest.raises((RefusedError, FileNotFoundError)), open_pooled(directory) as again:
        [*again.batches("default")]
    assert not _is_open(database)


def test_damage_after_a_scan_is_found_by_the_next_one(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "old", numbered(5000))
    (table,) = directory.glob("*.sst")
    with open_pooled(directory) as first:
        assert _is_open(first)
    flip_byte(table, table.stat().st_size // 2)
    with pytest.raises(CorruptionError), open_pooled(directory) as second:
        assert second is first
        [*second.batches("default")]


@pytest.mark.parametrize("flush", [True, False])
def test_a_path_that_is_not_utf_8_leaves_no_view_behind(tmp_path: Path, views: list[str], flush: bool) -> None:
    parent = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    parent.mkdir()
    make_store(tmp_path / "db", numbered(10), flush=flush).rename(parent / "db")
    for _ in range(2):
        with open_pooled(parent / "db") as database:
            assert _is_open(database)
    assert len(views) == 2  # a worker that is ended while it is idle would leave the view of one that is kept
    assert not [view for view in views if Path(view).exists()]


_FORKING = """
import os, sys
from pathlib import Path
from migrate.stores.rocksdb.openings import keeping_open, open_pooled

def read():
    with open_pooled(Path(sys.argv[1])) as database:
        return database, sum(map(len, database.batches("default")))

with keeping_open():
    kept, _ = read()
    child = os.fork()
    found, count = read()
    again, _ = read()
    is_right = (found is kept, again is found, count) == (child > 0, True, 10)
    if not child:
        os._exit(0 if is_right else 1)  # as workers end; RocksDB's threads, which a fork does not copy, are not joined
    assert os.waitpid(child, 0)[1] == 0, "the child"
    assert is_right
    assert sum(map(len, kept.batches("default"))) == 10
"""


def test_a_forked_process_opens_its_own(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "old", numbered(10))
    done = subprocess.run([sys.executable, "-c", _FORKING, directory], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
