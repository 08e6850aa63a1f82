"""The native engine: records go from RocksDB to RocksDB in a compiled loop, without objects of Python for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from migrate.engine.engine import Digest, FamilyWork, Hooks, NewFamily, Passed
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_api import library
from migrate.stores.rocksdb.c_library import LibraryMissingError
from migrate.stores.rocksdb.writing import TableOptions


class Native:
    """Takes the work of conversions that have a byte program, on one RocksDB directory and column family.

    What has to be judged in Python, and every error, is left to the portable engine's own code.
    """

    name = "native"

    def unavailable(self) -> str:
        return _unavailable()

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        conversion, inputs = work.conversion, work.inputs
        reasons = {
            "the conversion has a function, which is Python": conversion.function is not None,
            "the store may have wide-column records, which RocksDB's C API does not show": conversion.source.on_columns,
            "the keys change, and the partition of each new one is checked": conversion.elsewhere,
            "records of several RocksDB directories are merged": len(inputs.directories) > 1,
            "no RocksDB directory has such records": not inputs.directories,
            "records of several column families are merged": work.mapping.older,
            "the records of a time slice are picked out": inputs.times,
            "the records take their times from a changelog": inputs.known_times,
            "the conversion has no byte program: it is done in Python": conversion.program is None,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def rewrite(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
        from migrate.engine.native.passes import rewrite  # loads numba

        return rewrite(work, hooks, file, table)

    def compare(self, work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
        from migrate.engine.native.passes import compare

        return compare(work, hooks, new)

    def digest(self, new: NewFamily, keys: KeyRange, check: Callable[[], None]) -> Digest:
        from migrate.engine.native.passes import digest

        return digest(new, keys, check)


@cache
def _unavailable() -> str:
    if find_spec("numba") is None:
        return "numba is not installed: pip install 'stateferry[batch]'"
    try:
        library()
    except LibraryMissingError as error:
        return str(error)
    return ""
