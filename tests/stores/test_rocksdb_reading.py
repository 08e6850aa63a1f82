"""Scans over real RocksDB directories: whole, in order, in bounds, and loud where they cannot be."""

import os
from collections.abc import Iterable
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Rdict

from migrate.errors import CorruptionError, RefusedError
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.sst import SstFile
from tests.support import (
    FIXTURE,
    Tables,
    copy_fixture,
    fixture_records,
    flip_byte,
    make_families,
    make_runs,
    make_store,
    numbered,
    open_store,
    tree_state,
)

FEW_KEYS = [bytes(key) for size in (1, 2, 3) for key in product(b"\x00a\xff", repeat=size)]
SHORT = st.sampled_from(FEW_KEYS)


def _pairs(batches: Iterable[Batch]) -> list[tuple[bytes, bytes]]:
    return [pair for batch in batches for pair in zip(batch.keys, batch.values, strict=True)]


def _scan(path: Path, keys: KeyRange | None = None, family: str = "default") -> list[tuple[bytes, bytes]]:
    with open_read_only(path) as database:
        return _pairs(database.batches(family, keys))


@settings(max_examples=30)
@given(records=st.dictionaries(SHORT, st.binary(max_size=8), max_size=12), others=st.lists(SHORT, max_size=3))
def test_a_range_is_half_open(
    tmp_path_factory: pytest.TempPathFactory, records: dict[bytes, bytes], others: list[bytes]
) -> None:
    path = make_store(tmp_path_factory.mktemp("db") / "db", records)
    with open_read_only(path) as database:
        for start, end in product([None, b"", *records, *others], repeat=2):
            keys = KeyRange(start=start, end=end)
            expected = [(key, records[key]) for key in sorted(records) if key in keys]
            assert _pairs(database.batches("default", keys)) == expected


@given(
    runs=st.lists(st.dictionaries(SHORT, st.none() | st.binary(max_size=4), max_size=12), min_size=1, max_size=4),
    flushed=st.booleans(),
)
def test_overwrites_and_deletes_of_later_runs_win(
    tmp_path_factory: pytest.TempPathFactory, runs: list[dict[bytes, bytes | None]], flushed: bool
) -> None:
    path = tmp_path_factory.mktemp("db") / "db"
    model: dict[bytes, bytes] = {}
    with open_store(path) as database:
        for run in runs:
            for key, value in run.items():
                if value is None:
                    database.delete(key)
                    model.pop(key, None)
                else:
                    database[key] = value
                    model[key] = value
            if flushed:
                database.flush(True)
    assert _scan(path) == sorted(model.items())


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 1023, 1024, 1025, 5000])
def test_no_record_is_lost_where_batches_meet(count: int, tmp_path: Path) -> None:
    records = numbered(count, value_size=3)
    path = make_store(tmp_path / "db", records)
    assert _scan(path) == list(records.items())
    with open_read_only(path) as database:
        batches = list(database.batches("default"))
    assert all(0 < len(batch) <= 1024 for batch in batches)


def test_ranges_that_tile_give_every_record_once(tmp_path: Path) -> None:
    records = numbered(3000, value_size=3)
    path = make_store(tmp_path / "db", records)
    edges = [None, *sorted(records)[::171], b"key-00001500x", b"zzz", None]
    edges[1:-1] = sorted(edge for edge in edges if edge is not None)
    found: list[tuple[bytes, bytes]] = []
    for start, end in pairwise(edges):
        found += _scan(path, KeyRange(start=start, end=end))
    assert found == list(records.items())


def test_keys_of_one_byte_and_of_64_kib(tmp_path: Path) -> None:
    long = b"\x01" * 65536
    records = {b"\x00": b"", long: b"long", long[:-1]: b"shorter", b"\xff": b"last", b"\xff" * 65536: b""}
    path = make_store(tmp_path / "db", records)
    assert _scan(path) == sorted(records.items())
    assert _scan(path, KeyRange(start=long[:-1], end=long)) == [(long[:-1], b"shorter")]


def test_values_of_64_mib(tmp_path: Path) -> None:
    big = b"0123456789abcdef" * (4 << 20)
    records = {b"a": b"", b"b": big, b"c": b"small", b"d": big[::-1]}
    path = make_store(tmp_path / "db", records)
    assert dict(_scan(path)) == records


def test_every_family_is_read_by_its_name(tmp_path: Path) -> None:
    families = {"default": numbered(5), "empty": {}, "other": numbered(7, prefix=b"o")}
    path = make_families(tmp_path / "db", families)
    with open_read_only(path) as database:
        assert sorted(database.families) == ["default", "empty", "other"]
        for family, records in families.items():
            assert _pairs(database.batches(family)) == list(records.items())
        assert _pairs(database.batches("empty", KeyRange(start=b"a", end=b"b"))) == []


def test_what_lies_in_the_write_ahead_log_only_is_seen(tmp_path: Path) -> None:
    records = numbered(300)
    path = make_store(tmp_path / "db", records, flush=False)
    assert not list(path.glob("*.sst"))
    assert _scan(path) == list(records.items())


def test_a_real_store_reads_as_its_owner_read_it(tmp_path: Path) -> None:
    path = copy_fixture(tmp_path) / "0_1" / "rocksdb" / "orders"
    assert _scan(path) == [(key, value) for key, value, _ in fixture_records("0_1", "orders")]


def test_batches_are_the_records_whatever_their_size(tmp_path: Path) -> None:
    records = {b"%05d" % number: bytes(number % 3 * 70_000) for number in range(300)}
    assert _scan(make_store(tmp_path / "db", records)) == list(records.items())


# Memory


LARGEST_BATCH = 1 << 20


@pytest.mark.parametrize(
    "values",
    [[20] * 4000 + [200_000] * 100, [1 << 20] * 20, [4000] * 8000, [0, 300_000] * 60, [65_536] * 100 + [1] * 3000],
    ids=["small, then large", "large", "of four kilobytes", "by turns", "large, then small"],
)
def test_a_batch_holds_a_mebibyte_and_a_record_at_most(values: list[int], tmp_path: Path) -> None:
    records = {b"%06d" % number: bytes(size) for number, size in enumerate(values)}
    with open_read_only(make_store(tmp_path / "db", records)) as database:
        sizes = [(len(batch), batch.size) for batch in database.batches("default")]
    assert sum(count for count, _ in sizes) == len(values)
    assert max(count for count, _ in sizes) <= 1024
    assert max(size for _, size in sizes) <= LARGEST_BATCH + max(values)
    assert len(sizes) <= 40 + sum(values) / (LARGEST_BATCH / 8) + len(values) / 256


# Nothing is touched


def test_opening_and_scanning_touch_nothing(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    before = tree_state(application)
    for directory in application.glob("*/rocksdb/*"):
        with open_read_only(directory) as database:
            assert database.live_files
            for family in database.families:
                list(database.batches(family))
    assert tree_state(application) == before


def test_an_owner_that_uses_rocksdict_keeps_its_own_config(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(10))
    (path / "rocksdict-config.json").write_text('{"raw_mode": false}', encoding="ascii")
    before = tree_state(path)
    assert _scan(path) == list(numbered(10).items())
    assert tree_state(path) == before


def test_opening_beside_a_running_owner(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(100))
    with open_store(path) as owner:
        owner[b"zzz"] = b"unflushed"
        owner.flush_wal(True)
        assert _scan(path)[-1] == (b"zzz", b"unflushed")
        owner[b"zzzz"] = b"still writable"
    assert _scan(path)[-1] == (b"zzzz", b"still writable")


def test_a_scan_goes_on_where_the_owner_compacts_meanwhile(tmp_path: Path) -> None:
    runs = [numbered(2000, seed=seed) for seed in range(80)]  # more files than RocksDB keeps open by itself
    path = make_runs(tmp_path / "db", [{"default": dict([*run.items()][:25])} for run in runs])
    with open_store(path) as owner, open_read_only(path, all_files=True) as database:
        before = {*path.glob("*.sst")}
        owner.compact_range(None, None)
        owner.flush(True)
        assert before.isdisjoint(path.glob("*.sst"))
        assert _pairs(database.batches("default")) == [*numbered(25, seed=79).items()]


def test_values_in_blob_files_are_read(tmp_path: Path) -> None:
    options = Tables().options()
    options.create_if_missing(True)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(1)
    owner = Rdict(str(tmp_path / "db"), options)
    for key, value in numbered(100).items():
        owner[key] = value
    owner.flush(True)
    owner.close()
    assert [*(tmp_path / "db").glob("*.blob")]
    assert _scan(tmp_path / "db") == [*numbered(100).items()]


def test_live_files_are_those_of_the_manifest(tmp_path: Path) -> None:
    path = make_runs(tmp_path / "db", [{"default": numbered(10)}, {"default": numbered(20), "b": numbered(3)}])
    (path / "000999.sst").write_bytes(b"an orphan")
    with open_read_only(path) as database:
        files = database.live_files
        sequence_number = database.sequence_number
    assert [file.name for file in files] == sorted({p.name for p in path.glob("*.sst")} - {"000999.sst"})
    assert all(file.size == (path / file.name).stat().st_size for file in files)
    with open_store(path) as owner:
        owner[b"x"] = b"y"
    with open_read_only(path) as database:
        assert database.sequence_number == sequence_number + 1


# Damage


def _offset_of_block(file: Path, at: float) -> int:
    """The middle of the data block that lies at this share of the file's data."""
    with SstFile(file) as sst:
        ends = [sample.offset for sample in sst.index_samples(1 << 20)]
    number = min(int(at * len(ends)), len(ends) - 1)
    return ((0, *ends)[number] + ends[number]) // 2


def _damaged(folder: Path, at: float) -> Path:
    """A store of one table, of which the block at this share is damaged."""
    path = make_store(folder / "db", numbered(5000, value_size=50))
    (file,) = path.glob("*.sst")
    flip_byte(file, _offset_of_block(file, at))
    return path


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0], ids=["first", "middle", "last"])
def test_a_damaged_block_is_an_error_that_names_a_key(at: float, tmp_path: Path) -> None:
    records = numbered(5000, value_size=50)
    path = _damaged(tmp_path, at)
    seen: list[bytes] = []
    with pytest.raises(CorruptionError, match="block checksum mismatch") as caught, open_read_only(path) as database:
        for batch in database.batches("default"):
            seen += batch.keys
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert seen == sorted(records)[: len(seen)]
    assert len(seen) < len(records)
    assert (f'the key "{seen[-1].decode()}"' if seen else "its first record") in caught.value.message


@pytest.mark.parametrize("at", [0.0, 0.5], ids=["first", "middle"])
def test_a_sample_that_meets_a_damaged_block_is_an_error_too(at: float, tmp_path: Path) -> None:
    damaged = open_read_only(_damaged(tmp_path, at))
    with pytest.raises(CorruptionError, match="block checksum mismatch"), damaged as database:
        database.sample("default", None, 5000)


def test_a_scan_that_stays_off_the_damage_is_whole(tmp_path: Path) -> None:
    records = numbered(5000, value_size=50)
    path = _damaged(tmp_path, 0.9)
    found = _scan(path, KeyRange(start=b"key-00001000", end=b"key-00002000"))
    assert found == list(records.items())[1000:2000]
    with pytest.raises(CorruptionError, match=r"beyond the key \"key-0000\d+\""):
        _scan(path, KeyRange(start=b"key-00002000"))


def test_damage_at_the_start_of_a_range_is_not_an_empty_range(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match="key-00002500"):
        _scan(_damaged(tmp_path, 0.5), KeyRange(start=b"key-00002500", end=b"key-00002510"))


def test_damage_in_one_of_several_runs(tmp_path: Path) -> None:
    runs = [{"default": numbered(3000, value_size=50, seed=seed)} for seed in range(3)]
    path = make_runs(tmp_path / "db", runs, tables=Tables(compression="lz4"))
    file = sorted(path.glob("*.sst"))[1]
    flip_byte(file, _offset_of_block(file, 0.5))
    with pytest.raises(CorruptionError):
        _scan(path)


def test_a_missing_sst_file_is_refused_by_name(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(10))
    (file,) = path.glob("*.sst")
    file.unlink()
    with pytest.raises(RefusedError) as caught, open_read_only(path) as database:
        list(database.batches("default"))
    assert file.name in caught.value.message
    assert "stateferry-" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("CURRENT", None, "no file CURRENT"),
        ("CURRENT", b"", "lacks a manifest, which its CURRENT names"),
        ("CURRENT", b"\xff\xfe", "CURRENT does not name a manifest"),
        ("CURRENT", b"MANIFEST-999999\n", "lacks MANIFEST-999999"),
        ("MANIFEST-*", None, "lacks MANIFEST-"),
        ("MANIFEST-*", 20, "RocksDB cannot open"),
    ],
)
def test_missing_and_damaged_metadata_are_refused_by_name(
    name: str, content: bytes | int | None, message: str, tmp_path: Path
) -> None:
    path = make_store(tmp_path / "db", numbered(10))
    (file,) = path.glob(name)
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.unlink() if content is None else os.truncate(file, content)
    with pytest.raises(RefusedError, match=message), open_read_only(path):
        pass


def test_a_truncated_sst_file_is_an_error(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(1000))
    (file,) = path.glob("*.sst")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises((RefusedError, CorruptionError), match=file.name):
        _scan(path)


def test_the_fixture_itself_is_never_opened_in_place() -> None:
    assert not list(FIXTURE.rglob("rocksdict-config.json"))
