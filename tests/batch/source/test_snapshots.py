"""Snapshots: what the owner appends to is its own."""

from pathlib import Path

import pytest

from migrate import run
from migrate.batch.source.source import read_store
from migrate.stores.rocksdb.database import Database, StoreContent
from tests.support import make_store, numbered, open_store, raw_spec, read_family


def test_what_an_owner_changes_in_place_is_copied(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)), target={"path": None})
    run(spec)
    shared = {
        path.suffix for path in (spec.home / "snapshot").rglob("*") if path.is_file() and path.stat().st_nlink > 1
    }
    assert shared == {".sst"}
    with open_store(tmp_path / "old") as database:
        database[b"late"] = b"late"
    (partition,) = [path for path in (spec.home / "snapshot").iterdir() if path.is_dir()]
    assert read_family(partition) == numbered(50)


def test_files_that_changed_since_the_opening_do_not_stand_for_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path / "old", numbered(50))
    calm, content = read_store(store), Database.content

    def read_and_write(opened: Database) -> StoreContent:
        found = content(opened)
        with open_store(store) as database:
            database[b"late"] = b"late"
        return found

    monkeypatch.setattr(Database, "content", read_and_write)
    disturbed = read_store(store)
    assert disturbed.content == calm.content
    assert calm.files is not None
    assert disturbed.files is None
