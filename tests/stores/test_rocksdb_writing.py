"""SST files and RocksDB directories as the tool writes them."""

import gc
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.errors import ChunkFailedError, CorruptionError
from migrate.stores import files
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.live import open_live
from migrate.stores.rocksdb.options_file import read_options, reads_new_stores
from migrate.stores.rocksdb.sst import SstFile
from migrate.stores.rocksdb.writing import KeyOrderError, SstWriter, TableOptions, create_database
from tests.support import FIXTURE, numbered, read_families

CRC32C = 1


def _batch(*keys: bytes) -> Batch:
    return Batch(list(keys), [b"value of " + key for key in keys])


def _write(path: Path, records: dict[bytes, bytes], table: TableOptions | None = None) -> Path:
    writer = SstWriter(path, table or TableOptions())
    writer.write(Batch(list(records), list(records.values())))
    writer.finish()
    return path


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChunkFailedError, match=r"^cannot write .*none/new\.sst: .*No such file"):
        _write(tmp_path / "none" / "new.sst", numbered(1))


@pytest.mark.parametrize(
    ("batches", "before", "key", "words"),
    [
        ([(b"b", b"a")], b"b", b"a", "changes the order"),
        ([(b"a", b"c", b"b")], b"c", b"b", "changes the order"),
        ([(b"a", b"a")], b"a", b"a", "two old keys become one"),
        ([(b"a", b"b"), (b"b", b"c")], b"b", b"b", "two old keys become one"),
        ([(b"a", b"d"), (b"c", b"e")], b"d", b"c", "changes the order"),
    ],
)
def test_keys_must_ascend(
    batches: list[tuple[bytes, ...]], before: bytes, key: bytes, words: str, tmp_path: Path
) -> None:
    writer = SstWriter(tmp_path / "a.sst", TableOptions())
    for batch in batches[:-1]:
        writer.write(_batch(*batch))
    with pytest.raises(KeyOrderError, match=words) as caught:
        writer.write(_batch(*batches[-1]))
    assert f'"{key.decode()}" follows "{before.decode()}"' in caught.value.message


def test_without_a_record_there_is_no_file(tmp_path: Path) -> None:
    assert SstWriter(tmp_path / "a.sst", TableOptions()).finish() == []
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("compression", ["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"])
def test_tables_have_the_version_and_compression_asked_for(version: int, compression: str, tmp_path: Path) -> None:
    records = {b"%06d" % number: b"x" * 100 for number in range(1000)}
    table = TableOptions(compression=compression, format_version=version)
    with SstFile(_write(tmp_path / "a.sst", records, table)) as file:
        properties = file.properties()
    assert properties.format_version == version
    assert properties.entries == 1000
    assert (properties.data_bytes < properties.raw_bytes / 3) is (compression != "kNoCompression")


def test_tables_are_such_that_the_oldest_owner_opens_them(tmp_path: Path) -> None:
    """RocksDB 7.9, which Kafka Streams has up to 3.9, reads no format version above 5."""
    file = _write(tmp_path / "a.sst", numbered(10))
    create_database(tmp_path / "db", {"keyValueWithTimestamp": TableOptions()}, {"keyValueWithTimestamp": [file]}, {})
    options = read_options(tmp_path / "db")
    assert {family.format_version for family in options.values()} == {5}


def checksum_types(folder: Path) -> set[int]:
    """Of every table below the folder: the first byte of its footer, of 53 bytes up to format 5."""
    return {file.read_bytes()[-53] for file in folder.rglob("*.sst")}


def test_every_new_table_has_checksums_that_the_oldest_owner_checks(tmp_path: Path) -> None:
    """CRC32C, in chunks, entries, tails, what the adapter writes, and what it makes of them when it compacts."""
    changes = SstWriter(tmp_path / "changes.sst", TableOptions())
    changes.write_changes([b"a", b"b"], [b"new", None])
    files = {"default": [_write(tmp_path / "a.sst", numbered(10))]}
    create_database(
        tmp_path / "db",
        {"offsets": TableOptions()},
        files,
        {"offsets": {b"k": b"v"}},
        changes={"default": changes.finish()},
    )
    assert len([*(tmp_path / "db").glob("*.sst")]) == 3
    assert checksum_types(tmp_path / "db") == {CRC32C}
    with open_live(tmp_path / "db") as database:
        database.make_family("new")
        for name in ("new", "default"):
            database.family(name).put(b"k", b"v")
            database.family(name).flush()
            assert checksum_types(tmp_path / "db") == {CRC32C}
            database.family(name).compact()
    assert checksum_types(tmp_path / "db") == {CRC32C}


@pytest.mark.parametrize(
    ("version", "reads"),
    [("5.18.4", False), ("6.5.3", False), ("6.6.0", True), ("6.19", True), ("10.1.3", True), ("main", True)],
)
def test_rocksdb_reads_new_stores_from_6_6_on(version: str, *, reads: bool) -> None:
    assert reads_new_stores(version) is reads


@settings(max_examples=20)
@given(
    parts=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    family=st.sampled_from(["default", "keyValueWithTimestamp", "a b", "größer"]),
)
def test_files_become_one_directory(tmp_path_factory: pytest.TempPathFactory, parts: list[int], family: str) -> None:
    folder = tmp_path_factory.mktemp("create")
    files = []
    expected: dict[bytes, bytes] = {}
    for number, count in enumerate(parts):
        records = numbered(count, prefix=b"%d-" % number)
        if records:
            files.append(_write(folder / f"{number}.sst", records))
        expected |= records
    create_database(folder / "db", {family: TableOptions()}, {family: files}, {})
    assert read_families(folder / "db") == {"default": {}, family: expected}


def test_entries_are_put_beside_files(tmp_path: Path) -> None:
    records = numbered(100)
    create_database(
        tmp_path / "db",
        {"default": TableOptions(), "offsets": TableOptions()},
        {"default": [_write(tmp_path / "a.sst", records)]},
        {"offsets": {b"status": bytes(8), b"topic-0": b"\x00" * 7 + b"\x05"}},
    )
    assert read_families(tmp_path / "db") == {
        "default": records,
        "offsets": {b"status": bytes(8), b"topic-0": b"\x00" * 7 + b"\x05"},
    }


def test_a_new_directory_holds_rocksdb_files_only(tmp_path: Path) -> None:
    create_database(tmp_path / "db", {}, {"default": [_write(tmp_path / "a.sst", numbered(5))]}, {})
    kinds = {path.name.split("-")[0].lstrip("0123456789") for path in (tmp_path / "db").iterdir()}
    assert kinds == {"CURRENT", "IDENTITY", "LOCK", "MANIFEST", "OPTIONS", ".sst", ".log"}


@pytest.mark.parametrize("memory", ["/dev/shm", "/nowhere"])
def test_a_new_directory_does_not_refer_to_where_its_metadata_was_made(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MEMORY", Path(memory))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    create_database(tmp_path / "db", {}, {"default": [_write(tmp_path / "a.sst", numbered(5))]}, {})
    assert read_families(tmp_path / "db") == {"default": numbered(5)}
    made = {file.name: file.read_bytes() for file in (tmp_path / "db").iterdir()}
    assert not [name for name, content in made.items() if b"/stateferry-" in content or b"max_open_files" in content]
    assert not [*(tmp_path / "temporary").iterdir()]


def test_keys_that_read_like_options_stay_as_they_are(tmp_path: Path) -> None:
    """The manifest has the first and the last key of each table."""
    records = {b"a\n  wal_dir=b\n": b"1", b"b\n  max_open_files=20\n": b"2"}
    create_database(tmp_path / "db", {}, {"default": [_write(tmp_path / "a.sst", records)]}, {})
    assert read_families(tmp_path / "db") == {"default": records}


def test_a_failed_creation_leaves_no_open_database_behind(tmp_path: Path) -> None:
    """RocksDB removes files that it does not know when it is closed: of the next database in that directory too."""
    damaged = _write(tmp_path / "damaged.sst", numbered(5))
    damaged.write_bytes(damaged.read_bytes()[:-8] + bytes(8))
    with pytest.raises(CorruptionError) as kept:
        create_database(tmp_path / "db", {}, {"default": [damaged]}, {})
    create_database(tmp_path / "db", {}, {"default": [_write(tmp_path / "a.sst", numbered(5))]}, {})
    del kept
    gc.collect()
    assert read_families(tmp_path / "db") == {"default": numbered(5)}


def test_nothing_is_left_to_the_write_ahead_log(tmp_path: Path) -> None:
    create_database(tmp_path / "db", {"offsets": TableOptions()}, {}, {"offsets": {b"status": bytes(8)}})
    for log in (tmp_path / "db").glob("*.log"):
        log.write_bytes(b"")
    assert read_families(tmp_path / "db")["offsets"] == {b"status": bytes(8)}


def test_new_tables_have_the_owners_options(tmp_path: Path) -> None:
    create_database(tmp_path / "db", {}, {"default": [_write(tmp_path / "a.sst", numbered(5))]}, {})
    ours = read_options(tmp_path / "db")["default"]
    theirs = read_options(FIXTURE / "orders-app" / "0_0" / "rocksdb" / "orders")["default"]
    assert (ours.comparator, ours.merge_operator, ours.compression) == (
        theirs.comparator,
        theirs.merge_operator,
        theirs.compression,
    )
