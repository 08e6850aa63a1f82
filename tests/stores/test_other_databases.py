"""Directories that cannot be read, or only look like RocksDB's: each way in says so, and none is called damaged."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from migrate import (
    DualReadStore,
    QueryableStores,
    StoreDefinition,
    doctor,
    init_spec,
    inspect,
    migrate_store,
    open_store,
    plan,
    run,
)
from migrate.errors import ExitCode, MigrationError, RefusedError
from migrate.queries.side_by_side import SideBySideStores
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database
from migrate.stores.rocksdb.live import open_live
from migrate.stores.rocksdb.view import View
from tests.stores.test_unreadable import FLUSH, PREPARED, UNFLUSHED, unpacked
from tests.support import RAW, Tables, make_store, raw_spec, read_families

STORES = Path(__file__).parents[1] / "fixtures/other-databases/stores.tar.xz"

RECORDS = {b"k%d" % number: b"v" for number in range(100)}


def _unpacked(folder: Path) -> Path:
    with tarfile.open(STORES) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        archive.extractall(folder)
    return folder / "others"


def _leveldb(folder: Path) -> Path:
    return _unpacked(folder) / "leveldb"


def _only_a_log(folder: Path) -> Path:
    return _unpacked(folder) / "leveldb-log"


def _before_1_14(folder: Path) -> Path:
    """Tables were named *.sst then."""
    directory = _leveldb(folder)
    (directory / "000005.ldb").rename(directory / "000005.sst")
    return directory


def _taken_over(folder: Path) -> Path:
    """RocksDB has opened it, and has put files of its own beside the tables."""
    directory = _leveldb(folder)
    Rdict(str(directory), Options(raw_mode=True)).close()
    return directory


def _backup(folder: Path) -> Path:
    return _unpacked(folder) / "backup"


def _part_of_a_backup(folder: Path) -> Path:
    return _unpacked(folder) / "backup/private/1"


def _encrypted(folder: Path) -> Path:
    return _unpacked(folder) / "encrypted"


def _current_is_text(folder: Path) -> Path:
    directory = _encrypted(folder)
    (directory / "CURRENT").write_text("MANIFEST-000015\n")
    return directory


def _rocksdict(folder: Path) -> Path:
    with_any_keys = Rdict(str(folder / "of-rocksdict"))
    with_any_keys[5] = 1.5
    with_any_keys.close()
    return folder / "of-rocksdict"


def _asked(source: Path, folder: Path) -> dict[str, Callable[[], object]]:
    spec, in_place = raw_spec(folder, source), raw_spec(folder, source, target={"path": None})

    def opened_for_writing() -> None:
        with open_live(source):
            pass

    return {
        "run": lambda: run(spec),
        "run in place": lambda: run(in_place),
        "inspect": lambda: inspect(source),
        "init": lambda: init_spec(source, source_format=RAW, to=RAW, output=None),
        "open_store": lambda: open_store(source, format=RAW),
        "open_store for writing": lambda: open_store(source, format=RAW, read_only=False),
        "migrate_store": lambda: migrate_store(source, folder / "copy", source=RAW, target=RAW),
        "adapter": lambda: DualReadStore.open(folder / "lazy", old_path=source, source=RAW, target=RAW),
        "open_live": opened_for_writing,
    }


def _of_rocksdb(name: str) -> Callable[[Path], Path]:
    return lambda folder: unpacked(folder, name)


MISSING = ".sst, which its manifest names"
LINK = "if its owner keeps files elsewhere (db_paths, cf_paths), link them"
FOUND_BY_ROCKSDB = {
    "zlib": (
        _of_rocksdb("zlib"),
        "000009.sst is compressed with zlib, which the RocksDB here cannot read",
        "nothing is damaged: have its owner rewrite it with lz4",
    ),
    "elsewhere": (_of_rocksdb("elsewhere"), MISSING, LINK),
    "families-elsewhere": (_of_rocksdb("family-elsewhere"), MISSING, LINK),
    "families": (_of_rocksdb("name-not-utf8"), "has a column family whose name is not UTF-8", "nothing is damaged"),
    "unflushed": (_of_rocksdb("transactions-write_prepared-committed"), UNFLUSHED, FLUSH),
}
"""When it opens them for writing, it leaves a log of that."""
KINDS = {
    "leveldb": (_leveldb, "is a LevelDB database, or has tables of one", "with LevelDB into a new RocksDB directory"),
    "leveldb-log": (_only_a_log, "is a LevelDB database", "with LevelDB into a new RocksDB directory"),
    "leveldb-sst": (_before_1_14, "is a LevelDB database", "with LevelDB into a new RocksDB directory"),
    "leveldb-taken-over": (
        _taken_over,
        "is a LevelDB database, or has tables of one",
        "with RocksDB into a new directory",
    ),
    "backup": (_backup, "is a folder of RocksDB's backup engine, and no database", "ldb restore --db=DIRECTORY"),
    "backup-1": (_part_of_a_backup, "is in a folder of RocksDB's backup engine", "ldb restore --db=DIRECTORY"),
    "encrypted": (_encrypted, "the store is encrypted, or this is no RocksDB directory", "only its own application"),
    "encrypted-options": (_current_is_text, "OPTIONS-000017 is not text", "only its own application"),
    "rocksdict": (_rocksdict, "is ordered by the comparator 'rocksdict'", "that is RocksDict without raw_mode"),
    "prepared": (_of_rocksdb("transactions-write_prepared-prepared"), PREPARED, FLUSH),
    **FOUND_BY_ROCKSDB,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_in_names_it_and_leaves_it_as_it_is(kind: str, tmp_path: Path) -> None:
    make, message, hint = KINDS[kind]
    source = make(tmp_path)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    ways = _asked(source, tmp_path)
    if kind == "backup":
        del ways["inspect"], ways["open_live"]  # which says it as a report, which makes a new database
    if kind.startswith("families"):
        del ways["open_store for writing"]  # which asks first for one of them
    for name, way in ways.items():
        with pytest.raises(RefusedError) as refused:
            way()
        assert message in refused.value.message, name
        assert hint in refused.value.hint, name
        assert "restore it from" not in refused.value.hint or "elsewhere" in kind, name
    for spec in (raw_spec(tmp_path, source), raw_spec(tmp_path, source, target={"path": None})):
        for report in (plan(spec), doctor(spec)):
            failed = [" ".join(check.detail.split()) for check in report.checks if check.outcome == "failed"]
            assert failed
            assert all(message in detail for detail in failed)
    assert not (tmp_path / "work").exists()
    left = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert left == before or (kind in FOUND_BY_ROCKSDB and before.items() < left.items())


@pytest.mark.parametrize("kind", ["leveldb", "backup", "backup-1", "encrypted", "rocksdict"])
def test_queries_name_it_too_and_are_refused(kind: str, tmp_path: Path) -> None:
    make, message, _ = KINDS[kind]
    spec = raw_spec(tmp_path, make(tmp_path))
    with pytest.raises(MigrationError) as refused:
        SideBySideStores(spec).get(None, "k")
    assert message in refused.value.message
    assert refused.value.exit_code == ExitCode.REFUSED


@pytest.mark.parametrize("kind", ["leveldb", "backup", "backup-1", "encrypted", "rocksdict"])
def test_queries_of_a_directory_name_it_too(kind: str, tmp_path: Path) -> None:
    make, message, _ = KINDS[kind]
    stores = QueryableStores.of_directory(make(tmp_path), {"s": StoreDefinition(RAW)})
    with pytest.raises(RefusedError) as refused:
        stores.partitions("s")
    assert message in refused.value.message


def test_a_folder_of_backups_is_named_with_the_databases_beside_it(tmp_path: Path) -> None:
    folder = _backup(tmp_path)
    make_store(folder / "beside", {b"k": b"v"})
    report = inspect(folder)
    assert [place.system for place in report.places] == ["rocksdb"]
    assert "a folder of RocksDB's backup engine, and no database; next: restore" in report.places[0].sentence
    assert {each.path: each.error is None for each in report.databases} == {"beside": True, "private/1": False}
    with open_store(folder / "beside", format=RAW) as store:
        assert store.get(b"k") == b"v"


def test_the_oldest_tables_of_rocksdb_are_not_taken_for_those_of_leveldb(tmp_path: Path) -> None:
    """Format version 0, RocksDB's default up to 6.x, ends as LevelDB's tables do; here without OPTIONS and IDENTITY."""
    source = make_store(tmp_path / "old", RECORDS, tables=Tables(format_version=0))
    for name in ("IDENTITY", *(path.name for path in source.glob("OPTIONS-*"))):
        (source / name).unlink()
    run(raw_spec(tmp_path, source))
    assert len(read_families(tmp_path / "new")["default"]) == 100


def test_tables_of_leveldb_that_rocksdb_took_over_do_not_end_the_process(tmp_path: Path) -> None:
    source = _before_1_14(tmp_path)
    taken_over = Rdict(str(source), Options(raw_mode=True))
    database = Database(taken_over, (DEFAULT_FAMILY,), View(source, source, {}))
    with pytest.raises(RefusedError, match="has tables of one"):
        database.table_puts(DEFAULT_FAMILY)
    taken_over.close()


def test_rocksdb_copies_what_it_took_over_from_leveldb(tmp_path: Path) -> None:
    taken_over = Rdict(str(_taken_over(tmp_path)), Options(raw_mode=True))
    records: Any = dict(taken_over.items())
    taken_over.close()
    run(raw_spec(tmp_path, make_store(tmp_path / "copied", records)))
    assert read_families(tmp_path / "new")["default"] == records != {}


@pytest.mark.parametrize("lost", ["a table", "the manifest"])
def test_a_copy_that_was_made_while_its_owner_wrote_is_the_first_cause(lost: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", RECORDS)
    next(source.glob("*.sst" if lost == "a table" else "MANIFEST-*")).unlink()
    for way in _asked(source, tmp_path).values():
        with pytest.raises(MigrationError) as refused:
            way()
        assert refused.value.hint.startswith("if it is a copy that was made while its owner wrote: copy it again")


@pytest.mark.parametrize(("first", "length"), [(b"MAN\xc9", None), (b"\xcd\xc1\xce", 3)], ids=["a bit", "cut"])
def test_a_few_damaged_bytes_are_not_taken_for_encryption(first: bytes, length: int | None, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", {b"k": b"v"})
    content = first + (source / "CURRENT").read_bytes()[len(first) :]
    (source / "CURRENT").write_bytes(content[:length])
    with pytest.raises(RefusedError, match="does not name a manifest"):
        run(raw_spec(tmp_path, source))
