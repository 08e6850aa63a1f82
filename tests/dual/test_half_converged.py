"""A store that is half converged has its records in two places: only the adapter may open it."""

import shutil
from pathlib import Path

import pytest

from migrate import DualReadStore, RefusedError, inspect, migrate_store, open_store
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_store, numbered, raises

RECORDS = dict(numbered(50))
CONVERTED = {key: UNKNOWN_TIMESTAMP + value for key, value in RECORDS.items()}


def half_converged(base: Path, *, two_databases: bool) -> Path:
    old = make_store(base / "old", RECORDS)
    path = base / "new" if two_databases else old
    old_path = old if two_databases else None
    with DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=old_path) as store:
        store.converge(20, None)
    return path


@pytest.mark.parametrize("two_databases", [False, True])
def test_a_plain_opening_is_refused_with_a_hint(tmp_path: Path, two_databases: bool) -> None:
    path = half_converged(tmp_path, two_databases=two_databases)
    for directory, format_id in ((path, TIMESTAMPED), (tmp_path / "old", KEY_VALUE)):
        with pytest.raises(RefusedError, match=r"half converged.*about 30 records are left(?s:.*)DualReadStore"):
            open_store(directory, format=format_id)


def test_inspect_reports_a_half_converged_store(tmp_path: Path) -> None:
    half_converged(tmp_path, two_databases=True)
    how_far = {database.path: database.half_converged for database in inspect(tmp_path).databases}
    expected = f"half converged from {KEY_VALUE} to {TIMESTAMPED}, about 30 records are left"
    assert how_far == {"new": expected, "old": expected}


@pytest.mark.parametrize("name", ["old", "new"])
def test_the_batch_job_refuses_it_as_a_source(tmp_path: Path, name: str) -> None:
    half_converged(tmp_path, two_databases=True)
    source = KEY_VALUE if name == "old" else TIMESTAMPED
    with pytest.raises(RefusedError, match="half converged"):
        migrate_store(tmp_path / name, tmp_path / "migrated", source=source, target="rocksdb.raw")
    assert not (tmp_path / "migrated").exists()


@pytest.mark.parametrize("two_databases", [False, True])
def test_with_other_formats_or_another_old_store_it_is_not_taken_up(tmp_path: Path, two_databases: bool) -> None:
    path = half_converged(tmp_path, two_databases=two_databases)
    other = make_store(tmp_path / "other", RECORDS)
    raises(RefusedError, "", DualReadStore.open, path, source="rocksdb.raw", target=TIMESTAMPED, old_path=other)
    if two_databases:
        with pytest.raises(RefusedError, match=r"half converged from .*, with another old store"):
            DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=other)
        with pytest.raises(RefusedError, match="its new store is not in"):
            DualReadStore.open(tmp_path / "newer", source=KEY_VALUE, target=TIMESTAMPED, old_path=tmp_path / "old")
        with pytest.raises(RefusedError, match="there is no old store"):
            DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=tmp_path / "nothing")


@pytest.mark.parametrize("two_databases", [False, True])
def test_once_converged_it_is_a_plain_store(tmp_path: Path, two_databases: bool) -> None:
    path = half_converged(tmp_path, two_databases=two_databases)
    old_path = tmp_path / "old" if two_databases else None
    with DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=old_path) as store:
        store.converge(None, None)
    assert not [file for file in path.iterdir() if file.name in ("stateferry.json", "rocksdict-config.json")]
    with open_store(path, format=TIMESTAMPED) as plain:
        assert dict(plain.all()) == CONVERTED


def test_a_cursor_that_cannot_be_read_still_means_half_converged(tmp_path: Path) -> None:
    path = half_converged(tmp_path, two_databases=False)
    (path / "stateferry.json").write_bytes(b"")
    raises(RefusedError, "half converged: its records are in two places", open_store, path, format=TIMESTAMPED)
    raises(RefusedError, "is not as an adapter left it", DualReadStore.open, path, source=KEY_VALUE, target=TIMESTAMPED)
    with DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, on_foreign_writes="new-wins") as store:
        assert dict(store.all()) == CONVERTED


def test_a_new_store_from_an_older_backup_is_not_taken_up(tmp_path: Path) -> None:
    """The old store does not have any more what was moved since."""
    path = half_converged(tmp_path, two_databases=True)
    shutil.copytree(path, tmp_path / "backup")
    with DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=tmp_path / "old") as store:
        store.converge(20, None)
    shutil.rmtree(path)
    (tmp_path / "backup").rename(path)
    with pytest.raises(RefusedError, match="is from before records were moved into it"):
        DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=tmp_path / "old")


def test_an_opening_that_was_killed_half_way_can_be_repeated(tmp_path: Path) -> None:
    """What RocksDB leaves behind when it is killed while it makes a database, or writes its options."""
    old = make_store(tmp_path / "old", RECORDS)
    (old / "OPTIONS-000099.dbtmp").touch()
    (tmp_path / "new").mkdir()
    for name in ("LOCK", "IDENTITY", "MANIFEST-000001", "000001.dbtmp", ".stateferry.json.1.tmp"):
        (tmp_path / "new" / name).touch()
    with DualReadStore.open(tmp_path / "new", source=KEY_VALUE, target=TIMESTAMPED, old_path=old) as store:
        assert dict(store.all()) == CONVERTED
