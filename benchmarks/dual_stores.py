"""The stores that `benchmarks.lazy` measures: in the old format, half moved, or full of deleted records.

Copies share their SST files, which RocksDB never changes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import Rdict

from benchmarks.routes import CONVERSION
from benchmarks.stores import key_of
from migrate.dual.dual_store import DualReadStore
from migrate.stores.rocksdb.writing import TableOptions, table_options

ARRANGEMENTS = {"one": "one database, two column families", "two": "two databases"}
VALUE = bytes(range(108))
"""As large as a converted one."""
_NEW = "-new"
_BATCH = 1000


def copy(source: Path, target: Path) -> Path:
    """A store of the same records; the new database beside an old one comes along."""
    for suffix in ("", _NEW):
        if (beside := source.with_name(source.name + suffix)).exists():
            shutil.copytree(beside, target.with_name(target.name + suffix), copy_function=_link_tables)
    return target


def _link_tables(source: str, target: str) -> None:
    if source.endswith(".sst"):
        os.link(source, target)
    else:
        shutil.copy(source, target)


def read_once(folder: Path) -> None:
    """So that no measurement waits for the disk."""
    for file in folder.rglob("*.sst"):
        with file.open("rb") as stream:
            while stream.read(1 << 20):
                pass


def open_dual(path: Path, arrangement: str, *, migrate_on_read: bool = False) -> DualReadStore:
    """`path`: of the old store."""
    return DualReadStore.open(
        path if arrangement == "one" else path.with_name(path.name + _NEW),
        old_path=None if arrangement == "one" else path,
        source=CONVERSION.source,
        target=CONVERSION.target,
        migrate_on_read=migrate_on_read,
    )


@contextmanager
def open_bare(path: Path) -> Iterator[Rdict]:
    """rocksdict itself, with the options that our stores have."""
    options = table_options(TableOptions())
    database = Rdict(str(path), options, column_families={"default": options})
    try:
        yield database
    finally:
        database.close()


def make_half(source: str, folder: str, arrangement: str, records: int) -> dict[str, object]:
    """Every other record was rewritten during dual access; and a second store, half moved by the sweep. Not a
    measurement.

    Both stores are one sorted run each, like a bare store that is old enough: no filter says what is not in it.
    """
    path = copy(Path(source), Path(folder) / f"half-{arrangement}")
    with open_dual(path, arrangement) as store:
        for start in range(0, records, 2 * _BATCH):
            numbers = range(start, min(start + 2 * _BATCH, records), 2)
            store.put_all([(key_of(number), VALUE) for number in numbers])
        _compact(store)
    with open_dual(copy(Path(source), Path(f"{path}-swept")), arrangement) as store:
        store.converge(records // 2, None)
        _compact(store)
    return {}


def _compact(store: DualReadStore) -> None:
    store.flush()
    for family in (store._family, store._access.pair.old):  # type: ignore[union-attr]
        family.flush()
        family.compact()


def make_emptied(source: str, folder: str, records: int) -> dict[str, object]:
    """Every record deleted, one by one, by the old code. Not a measurement.

    `logged`: the deletes are in the write-ahead log, as far as RocksDB left them there. `flushed`: in SST files.
    """
    path = copy(Path(source), Path(folder) / "flushed")
    with open_bare(path) as database:
        for number in range(records):
            database.delete(key_of(number))
        copy(path, Path(folder) / "logged")
        database.flush(True)
    return {}
