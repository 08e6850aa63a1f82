"""The native engine in processes of all kinds, and what it keeps on the disk for the next one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.engine.native.compiled import _key
from migrate.stores.rocksdb.c_library import unpacked_library


def _worker(folder: Path, what: str, count: int = 1, *, cache: Path | None = None) -> "subprocess.Popen[str]":
    folder.mkdir()
    more = {} if cache is None else {"STATEFERRY_CACHE": str(cache)}
    command = [sys.executable, "-m", "tests.engine.native.worker", str(folder), what, str(count)]
    return subprocess.Popen(command, env={**os.environ, **more}, stderr=subprocess.PIPE, text=True)


def _check(worker: "subprocess.Popen[str]") -> None:
    _, said = worker.communicate()
    assert worker.returncode == 0, said[-3000:]


@pytest.mark.parametrize("what", ["forked", "threaded"])
def test_it_works_after_a_fork_and_in_threads_beside_the_portable_engine(what: str, tmp_path: Path) -> None:
    _check(_worker(tmp_path / "worker", what, 4))


@pytest.mark.parametrize("chunks", [50, 1000])
def test_neither_memory_nor_files_grow(chunks: int, tmp_path: Path) -> None:
    _check(_worker(tmp_path / "worker", "flat", chunks))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache directory of its own, which has the library and no loop."""
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    shutil.copy2(unpacked_library(), made)
    return made


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _empty(file: Path) -> None:
    os.truncate(file, 0)


@pytest.mark.parametrize("harm", [_cut, _empty])
def test_a_loop_that_is_cut_off_is_compiled_again(harm: Callable[[Path], None], cache: Path, tmp_path: Path) -> None:
    _check(_worker(tmp_path / "first", "once", cache=cache))
    (file,) = cache.glob("loop-*.o")
    whole = file.read_bytes()
    harm(file)
    _check(_worker(tmp_path / "second", "once", cache=cache))
    assert file.read_bytes() == whole


def test_many_processes_may_compile_at_once(cache: Path, tmp_path: Path) -> None:
    for round_ in range(2):
        workers = [_worker(tmp_path / f"{round_}-{number}", "once", cache=cache) for number in range(6)]
        for worker in workers:
            _check(worker)
    assert [file.name for file in cache.iterdir() if file.suffix != ".so"] == [f"loop-{_key()}.o"]


def test_a_loop_that_cannot_be_kept_is_compiled_all_the_same(cache: Path, tmp_path: Path) -> None:
    in_its_place = cache / f"loop-{_key()}.o"
    in_its_place.mkdir()
    _check(_worker(tmp_path / "first", "once", cache=cache))
    assert in_its_place.is_dir()
