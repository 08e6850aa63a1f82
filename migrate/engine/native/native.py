"""The native engine: records go from RocksDB to RocksDB in a compiled loop, without objects of Python for each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.engine.bail_out import BailOutError
from migrate.engine.engine import Digest, FamilyWork, Hooks, NewFamily, Passed
from migrate.model.display import one_line
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_api import library
from migrate.stores.rocksdb.c_library import LibraryMissingError, find_library
from migrate.stores.rocksdb.writing import TableOptions

if TYPE_CHECKING:
    from migrate.engine.native.compiled import Loop

_LOG = logging.getLogger(__name__)


class Native:
    """Takes the work of conversions that have a byte program, on one RocksDB directory and column family.

    What has to be judged in Python, and every error, is left to the portable engine's own code.
    """

    name = "native"

    def __init__(self) -> None:
        self._failed = ""

    def unavailable(self) -> str:
        return self._failed or _missing()

    def prepare(self) -> None:
        """Unpack the library, and compile the loop, or load both from the cache."""
        if self.unavailable():
            return
        self._failed = _cannot_load("loop")
        if self._failed:
            _LOG.warning("%s declines: %s", self.name, self._failed)

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        conversion, inputs = work.conversion, work.inputs
        reasons = {
            "the conversion has a function, which is Python": conversion.function is not None,
            "the store may have wide-column records, which RocksDB's C API does not show": conversion.source.on_columns,
            "the keys change, and the partition of each new one is checked": conversion.elsewhere,
            "the number of partitions changes, and records are split by their keys": inputs.share,
            "records of several RocksDB directories are merged": len(inputs.directories) > 1,
            "no RocksDB directory has such records": not inputs.directories,
            "records of several column families are merged": work.mapping.older,
            "the records of a time slice are picked out": inputs.times,
            "the records take their times from a changelog": inputs.known_times,
            "the conversion has no byte program: it is done in Python": conversion.program is None,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def rewrite(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
        self._be_ready()
        from migrate.engine.native.passes import rewrite

        return rewrite(work, hooks, file, table)

    def compare(self, work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
        self._be_ready()
        from migrate.engine.native.passes import compare

        return compare(work, hooks, new)

    def digest(self, new: NewFamily, keys: KeyRange, check: Callable[[], None]) -> Digest:
        self._be_ready()
        from migrate.engine.native.passes import digest

        return digest(new, keys, check)

    def _be_ready(self) -> None:
        """Raises BailOutError where this machine cannot compile the loop, though the run's own could."""
        self.prepare()
        if self._failed:
            raise BailOutError


@cache
def can_gather() -> bool:
    """Whether this process can copy records into buffers (`gather`); the loop is compiled, or loaded, by then."""
    problem = _missing() or _cannot_load("gather")
    if problem:
        _LOG.info("rows are read without compiled code: %s", problem)
    return not problem


def _cannot_load(loop: Loop) -> str:
    """Why a compiled loop cannot be had here; empty: it is there by now."""
    try:
        from migrate.engine.native.compiled import compiled  # may load numba

        library()
        compiled(loop)
    except LibraryMissingError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - whatever numba, LLVM and the disk raise
        return f"its loop cannot be compiled: {type(error).__name__}: {one_line(str(error))}"
    return ""


@cache
def _missing() -> str:
    """What is not installed here; nothing is written to find out."""
    if find_spec("numba") is None:
        return "numba is not installed: pip install 'stateferry[batch]'"
    try:
        import llvmlite.binding as llvm

        llvm.check_jit_execution()  # else the process would end by a signal
        find_library()
    except ImportError as error:
        return f"llvmlite, which numba needs, cannot be loaded: {error}"
    except (OSError, LibraryMissingError) as error:
        return one_line(getattr(error, "strerror", None) or str(error))
    return ""
