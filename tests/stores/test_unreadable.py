"""Stores that RocksDB's own library wrote and that are read, some after what a refusal asks for was done."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from jobs.java import find_java_home
from migrate import open_store, run
from migrate.errors import RefusedError
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.live import open_live
from tests.support import RAW, raw_spec, read_families

ROOT = Path(__file__).parents[2]
STORES = ROOT / "tests/fixtures/rocksdb-9.8.4/stores.tar.xz"
RECORDS = {b"key-%06d" % number: b"value-%06d-" % number * 5 for number in range(300)}
COMMITTED = {b"key-000001": b"of the transaction", b"prepared": b"of the transaction"}
LATER = {b"later": b"write"}
POLICIES = ("committed", "prepared", "unprepared")
PREPARED = "prepared and neither committed nor rolled back: 'transaction-1'"
UNFLUSHED = "has transactions in its write-ahead log, which was not flushed"
FLUSH = "commit or roll back what it has prepared, then flush"


def unpacked(folder: Path, name: str) -> Path:
    """One of the stores; its files that lie elsewhere are beside it."""
    with tarfile.open(STORES) as archive:
        members = [file for file in archive if file.name.split("/")[1:2] in ([name], [f"{name}-sst"])]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        archive.extractall(folder, members)
    source = folder / "stores" / name
    for options in source.glob("OPTIONS-*"):
        options.write_bytes(options.read_bytes().replace(b"wal_dir=stores/elsewhere", b"wal_dir=" + bytes(source)))
    return source


@pytest.mark.parametrize("compression", ["no", "snappy", "bzlib2", "lz4", "lz4hc", "zstd"])
def test_every_compression_that_can_be_read_is(tmp_path: Path, compression: str) -> None:
    source = unpacked(tmp_path, compression)
    run(raw_spec(tmp_path, source))
    assert read_families(tmp_path / "new") == {"default": RECORDS}


def test_what_is_to_be_done_about_zlib_does_it(tmp_path: Path) -> None:
    import pyspark

    (jar,) = Path(pyspark.__file__).parent.glob("jars/rocksdbjni-*.jar")
    java, program = find_java_home() / "bin/java", ROOT / "examples/recompress/Recompress.java"
    source = unpacked(tmp_path, "zlib")
    subprocess.run([java, "-cp", jar, program, source], check=True, timeout=120)
    run(raw_spec(tmp_path, source))
    assert read_families(tmp_path / "new") == {"default": RECORDS}


@pytest.mark.parametrize("store", ["elsewhere", "family-elsewhere"])
def test_tables_in_another_directory_are_read_once_they_are_linked(tmp_path: Path, store: str) -> None:
    source = unpacked(tmp_path, store)
    for file in source.with_name(f"{store}-sst").glob("*.sst"):
        (source / file.name).symlink_to(file)
    with open_read_only(source) as database:
        assert {len(batch) for name in database.families for batch in database.batches(name)} == {300}


@pytest.mark.parametrize("end", ["prepared", "prepared-flushed", "committed", "rolled-back"])
@pytest.mark.parametrize("policy", POLICIES)
def test_transactions_that_did_not_end_or_are_in_the_log_are_refused(tmp_path: Path, policy: str, end: str) -> None:
    source = unpacked(tmp_path, f"transactions-write_{policy}-{end}")
    for opened in (open_read_only(source), open_live(source)):
        with pytest.raises(RefusedError, match=PREPARED if "prepared" in end else UNFLUSHED) as refused, opened:
            pass
        assert FLUSH in refused.value.hint


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("end", "records"),
    [
        ("none", RECORDS),
        ("committed-flushed", RECORDS | COMMITTED | LATER),
        ("rolled-back-flushed", RECORDS | LATER),
    ],
)
def test_transactions_that_ended_and_were_flushed_are_read(
    tmp_path: Path, policy: str, end: str, records: dict[bytes, bytes]
) -> None:
    source = unpacked(tmp_path, f"transactions-write_{policy}-{end}")
    run(raw_spec(tmp_path, source))
    assert read_families(tmp_path / "new") == {"default": records}
    with open_store(tmp_path / "new", format=RAW) as store:
        assert store.get(b"key-000001") == records[b"key-000001"]
