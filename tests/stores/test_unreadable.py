"""Stores that RocksDB's own library wrote: each is read, or refused for what it is, and none is called damaged."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.java import find_java_home
from migrate import inspect, open_store, plan, run
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


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Path]:
    """Unpacks one of the stores, and where its files lie elsewhere those too."""

    def unpack(name: str) -> Path:
        with tarfile.open(STORES) as archive:
            members = [file for file in archive if file.name.split("/")[1:2] in ([name], [f"{name}-sst"])]
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
            archive.extractall(tmp_path, members)
        return tmp_path / "stores" / name

    return unpack


def refusal(source: Path, folder: Path) -> RefusedError:
    """What every way in says of it."""
    with pytest.raises(RefusedError) as refused:
        run(raw_spec(folder, source))
    found = [refused.value.message]
    with pytest.raises(RefusedError) as refused:
        inspect(source)
    found.append(refused.value.message)
    failed = [check.detail for check in plan(raw_spec(folder, source)).checks if check.outcome == "failed"]
    assert [detail for detail in failed if found[0] in " ".join(detail.split())]
    for opened in (open_read_only(source), open_live(source)):
        with pytest.raises(RefusedError) as refused, opened:
            pass
        found.append(refused.value.message)
    assert set(found) == {refused.value.message}
    assert not (folder / "work").exists()
    return refused.value


@pytest.mark.parametrize("compression", ["no", "snappy", "bzlib2", "lz4", "lz4hc", "zstd"])
def test_every_compression_that_can_be_read_is(made: Callable[[str], Path], tmp_path: Path, compression: str) -> None:
    source = made(compression)

    run(raw_spec(tmp_path, source))

    assert read_families(tmp_path / "new") == {"default": RECORDS}


def test_zlib_is_named_with_what_to_do(made: Callable[[str], Path], tmp_path: Path) -> None:
    refused = refusal(made("zlib"), tmp_path)

    assert "000009.sst is compressed with zlib, which the RocksDB here cannot read" in refused.message
    assert refused.hint.startswith("nothing is damaged: have its owner rewrite it with lz4")


def test_what_is_to_be_done_about_zlib_does_it(made: Callable[[str], Path], tmp_path: Path) -> None:
    import pyspark

    (jar,) = Path(pyspark.__file__).parent.glob("jars/rocksdbjni-*.jar")
    java, program = find_java_home() / "bin/java", ROOT / "examples/recompress/Recompress.java"
    source = made("zlib")

    subprocess.run([java, "-cp", jar, program, source], check=True, timeout=120)
    run(raw_spec(tmp_path, source))

    assert read_families(tmp_path / "new") == {"default": RECORDS}


@pytest.mark.parametrize("store", ["elsewhere", "family-elsewhere"])
def test_tables_in_another_directory_are_missing_until_they_are_linked(
    made: Callable[[str], Path], tmp_path: Path, store: str
) -> None:
    source = made(store)
    options = max(source.glob("OPTIONS-*"))
    options.write_text(options.read_text().replace("wal_dir=stores/elsewhere", f"wal_dir={source}"))

    refused = refusal(source, tmp_path)
    assert ".sst, which its manifest names" in refused.message
    assert "if its owner keeps files elsewhere (db_paths, cf_paths), link them" in refused.hint

    for file in source.with_name(f"{store}-sst").glob("*.sst"):
        (source / file.name).symlink_to(file)
    with open_read_only(source) as database:
        assert {len(batch) for name in database.families for batch in database.batches(name)} == {300}


def test_a_family_whose_name_is_not_utf8_is_named(made: Callable[[str], Path], tmp_path: Path) -> None:
    refused = refusal(made("name-not-utf8"), tmp_path)

    assert "has a column family whose name is not UTF-8" in refused.message
    assert refused.hint.startswith("nothing is damaged")


@pytest.mark.parametrize("end", ["prepared", "prepared-flushed"])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_prepared_and_not_committed_is_refused(
    made: Callable[[str], Path], tmp_path: Path, policy: str, end: str
) -> None:
    refused = refusal(made(f"transactions-write_{policy}-{end}"), tmp_path)

    assert "prepared and neither committed nor rolled back: 'transaction-1'" in refused.message
    assert "commit or roll back what it has prepared, then flush" in refused.hint


@pytest.mark.parametrize("end", ["committed", "rolled-back"])
@pytest.mark.parametrize("policy", POLICIES)
def test_transactions_that_ended_in_the_log_have_to_be_flushed(
    made: Callable[[str], Path], tmp_path: Path, policy: str, end: str
) -> None:
    refused = refusal(made(f"transactions-write_{policy}-{end}"), tmp_path)

    assert "has transactions in its write-ahead log, which was not flushed" in refused.message


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
    made: Callable[[str], Path], tmp_path: Path, policy: str, end: str, records: dict[bytes, bytes]
) -> None:
    source = made(f"transactions-write_{policy}-{end}")

    run(raw_spec(tmp_path, source))

    assert read_families(tmp_path / "new") == {"default": records}
    with open_store(tmp_path / "new", format=RAW) as store:
        assert store.get(b"key-000001") == records[b"key-000001"]
