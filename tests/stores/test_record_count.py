"""How many records there are, without reading their values, and mostly without a scan."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from rocksdict import Rdict

from migrate import run
from migrate.errors import CorruptionError
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.writing import TableOptions, create_database
from tests.support import flip_byte, make_runs, make_store, numbered, open_store, raw_spec, read_family, write_sst

RECORDS = numbered(1500)
KEYS = list(RECORDS)
FAMILY = "default"


def test_ingested_records_are_counted_by_metadata(tmp_path: Path) -> None:
    file = write_sst(tmp_path / "a.sst", RECORDS)
    create_database(tmp_path / "new", {FAMILY: TableOptions()}, {FAMILY: [file]}, {})
    with open_read_only(tmp_path / "new") as opened:
        assert opened.proven_records(FAMILY) == len(RECORDS)


def test_an_empty_family_is_counted_by_metadata(tmp_path: Path) -> None:
    with open_read_only(make_store(tmp_path / "old", {})) as opened:
        assert opened.proven_records(FAMILY) == 0


def _rewritten(database: Rdict) -> None:
    database[KEYS[0]] = b"again"
    database.flush(True)


def _deleted(database: Rdict) -> None:
    database.delete(KEYS[0])
    database.flush(True)


def _logged(database: Rdict) -> None:
    database[b"later"] = b"v"


def test_a_scan_of_keys_counts_each_range(tmp_path: Path) -> None:
    store = make_store(tmp_path / "old", numbered(5000))
    edges = [None, b"key-00000000", b"key-00001024", b"key-0000102400", b"key-00004999", b"zzz", None]
    with open_read_only(store) as opened:
        counts = [opened.count(FAMILY, KeyRange(start=start, end=end), lambda: None) for start, end in pairwise(edges)]
    assert counts == [0, 1024, 1, 3974, 1, 0]


def test_a_count_that_meets_damage_is_an_error(tmp_path: Path) -> None:
    store = make_store(tmp_path / "old", numbered(5000))
    (file,) = store.glob("*.sst")
    flip_byte(file, file.stat().st_size // 2)
    with open_read_only(store) as opened, pytest.raises(CorruptionError):
        opened.count(FAMILY, KeyRange(), lambda: None)


@pytest.mark.parametrize("change", [None, _rewritten, _deleted, _logged])
def test_what_metadata_does_not_prove_is_scanned(change: Callable[[Rdict], None] | None, tmp_path: Path) -> None:
    store = make_runs(tmp_path / "old", [{FAMILY: RECORDS}])
    if change is not None:
        with open_store(store) as database:
            change(database)
    with open_read_only(store) as opened:
        assert opened.proven_records(FAMILY) is None
    run(raw_spec(tmp_path, store, run={"verify": "digest"}))
    assert read_family(tmp_path / "new") == read_family(store)
