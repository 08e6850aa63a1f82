"""The loop, compiled once per process; what numba makes of it is kept on the disk for the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types

from migrate.engine.native import hashing, interpreter, loop, raw_memory
from migrate.stores.rocksdb.c_library import cache_directory

_LOG = logging.getLogger(__name__)
_SOURCES = (raw_memory, hashing, interpreter, loop)
_compiling = Lock()


def compiled() -> Callable[[int], int]:
    """The loop, which takes the address of a block. It takes 2 to 3 s to compile, a tenth of that from the cache."""
    with _compiling:  # numba's settings are those of the process
        return _compiled()


@cache
def _compiled() -> Callable[[int], int]:
    directory = cache_directory() / "compiled" / _key()
    signature = types.int64(types.int64)
    run: Any = loop.run
    with _caching_in(directory):
        run.enable_caching()
        try:
            run.compile(signature)
        except Exception:  # noqa: BLE001 - a file that a power cut has left behind, of whatever content
            _LOG.debug("compiling again what cannot be loaded from %s", directory, exc_info=True)
            rmtree(directory, ignore_errors=True)
            run.compile(signature)
    found: Callable[[int], int] = run
    return found


def _key() -> str:
    """Compiled code is for one version of numba and of the sources, and for one kind of CPU."""
    parts = [numba.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    sources = [Path(str(module.__file__)).read_text() for module in _SOURCES]
    return sha256("\0".join([*parts, *sources]).encode()).hexdigest()[:32]


@contextmanager
def _caching_in(directory: Path) -> Iterator[None]:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(directory)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
