"""SST files as RocksDB writes them, in every form that planning may meet."""

import random
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.stores.rocksdb.sst import FOOTER_SIZE, IndexSample, SstFile, SstFormatError, TableProperties, read_ahead
from tests.support import FIXTURE, Tables, make_families, numbered, open_store, write_sst

VERSIONS = (3, 4, 5, 6, None)
COMPRESSIONS = ("none", "snappy", "lz4", "zstd")
RECORDS = numbered(3000, value_size=60)


def _read(path: Path, count: int = 1 << 20) -> tuple[TableProperties, list[IndexSample]]:
    with SstFile(path) as file:
        return file.properties(), file.index_samples(count)


def _check_samples(properties: TableProperties, samples: list[IndexSample], keys: list[bytes]) -> None:
    """Keys ascend and separate the data; offsets ascend and end where the data do."""
    assert all(before.key <= after.key for before, after in pairwise(samples))
    assert all(before.offset < after.offset for before, after in pairwise(samples))
    assert samples[-1].offset == properties.data_bytes
    assert samples[-1].key >= keys[-1]
    assert samples[0].key >= keys[0]


@pytest.mark.parametrize(("version", "compression"), list(product(VERSIONS, COMPRESSIONS)))
def test_reads_every_version_and_compression(version: int | None, compression: str, tmp_path: Path) -> None:
    path = write_sst(tmp_path / "a.sst", RECORDS, tables=Tables(compression=compression, format_version=version))
    properties, samples = _read(path)
    assert properties.entries == 3000
    assert properties.deletions == 0
    assert properties.raw_bytes == sum(len(key) + 8 + len(value) for key, value in RECORDS.items())
    assert properties.format_version == (6 if version is None else version)
    assert 0 < properties.data_bytes < path.stat().st_size
    assert len(samples) > 40
    _check_samples(properties, samples, sorted(RECORDS))


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_every_version_gives_the_same_samples(version: int, tmp_path: Path) -> None:
    """Version 2 has internal keys in its index, which end in eight bytes that are not the record's."""
    old = write_sst(tmp_path / "a.sst", RECORDS, tables=Tables(format_version=version))
    new = write_sst(tmp_path / "b.sst", RECORDS)
    assert [sample.key for sample in _read(old)[1]] == [sample.key for sample in _read(new)[1]]


def test_samples_weigh_the_records_before_them(tmp_path: Path) -> None:
    """A sample's offset is, up to a block, the share of the records that are not beyond its key."""
    keys = sorted(RECORDS)
    path = write_sst(tmp_path / "a.sst", RECORDS)
    properties, samples = _read(path, 20)
    for sample in samples:
        before = sum(key <= sample.key for key in keys)
        assert sample.offset / properties.data_bytes == pytest.approx(before / len(keys), abs=0.001)


@pytest.mark.parametrize(("version", "interval"), list(product((4, 5, None), (2, 16))))
def test_reads_indexes_that_share_prefixes(version: int | None, interval: int, tmp_path: Path) -> None:
    tables = Tables(format_version=version, index_restart_interval=interval)
    properties, samples = _read(write_sst(tmp_path / "a.sst", RECORDS, tables=tables))
    assert len(samples) > 40 // interval
    keys = [sample.key for sample in samples]
    assert keys == sorted(keys)
    assert all(before.offset < after.offset for before, after in pairwise(samples))
    assert samples[-1].offset <= properties.data_bytes


@pytest.mark.parametrize(("version", "compression"), list(product((3, 5, None), ("none", "zstd"))))
def test_reads_partitioned_indexes(version: int | None, compression: str, tmp_path: Path) -> None:
    tables = Tables(format_version=version, compression=compression, partitioned_index=True)
    properties, samples = _read(write_sst(tmp_path / "a.sst", RECORDS, tables=tables))
    assert len(samples) > 3
    _check_samples(properties, samples, sorted(RECORDS))


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_takes_as_many_samples_as_wanted_spread_over_the_file(count: int, tmp_path: Path) -> None:
    properties, samples = _read(write_sst(tmp_path / "a.sst", RECORDS, tables=Tables(block_size=1024)), count)
    assert len(samples) == count
    offsets = [0, *(sample.offset for sample in samples)]
    sizes = [after - before for before, after in pairwise(offsets)]
    assert sum(sizes) == properties.data_bytes
    assert max(sizes) < 1.5 * min(sizes)


def test_a_few_samples_read_a_few_bytes(tmp_path: Path) -> None:
    path = write_sst(tmp_path / "a.sst", numbered(50_000, value_size=100))
    with SstFile(path) as file:
        file.index_samples(16)
        assert file.bytes_read < path.stat().st_size / 500


@given(
    records=st.dictionaries(st.binary(min_size=1, max_size=30), st.binary(max_size=300), min_size=1, max_size=60),
    block_size=st.sampled_from([64, 512, 4096]),
)
def test_any_records_give_samples_in_order(
    tmp_path_factory: pytest.TempPathFactory, records: dict[bytes, bytes], block_size: int
) -> None:
    path = tmp_path_factory.mktemp("sst") / "a.sst"
    properties, samples = _read(write_sst(path, records, tables=Tables(block_size=block_size)))
    assert properties.entries == len(records)
    _check_samples(properties, samples, sorted(records))


def test_reads_one_record(tmp_path: Path) -> None:
    properties, samples = _read(write_sst(tmp_path / "a.sst", {b"k": b""}))
    assert (properties.entries, properties.raw_bytes) == (1, 9)
    assert samples == [IndexSample(samples[0].key, properties.data_bytes)]
    assert samples[0].key >= b"k"


def test_files_that_are_gone_or_empty_are_read_ahead_as_nothing(tmp_path: Path) -> None:
    names = [write_sst(tmp_path / f"{number}.sst", {b"k": b""}).name for number in range(100)]
    (tmp_path / names[7]).unlink()
    (tmp_path / names[50]).write_bytes(b"")
    read_ahead(tmp_path, names)
    assert _read(tmp_path / names[99])[0].entries == 1


def test_reads_a_file_of_deletions_only(tmp_path: Path) -> None:
    make_families(tmp_path / "db", {"default": {b"a": b"1", b"b": b"2"}})
    with open_store(tmp_path / "db") as database:
        database.delete(b"a")
        database.flush(True)
    newest = max((tmp_path / "db").glob("*.sst"))
    properties, samples = _read(newest)
    assert (properties.entries, properties.deletions) == (1, 1)
    assert samples[-1].offset == properties.data_bytes


def test_reads_a_file_of_range_deletions_only(tmp_path: Path) -> None:
    with open_store(tmp_path / "db") as database:
        database.delete_range(b"a", b"c")
        database.flush(True)
    (file,) = (tmp_path / "db").glob("*.sst")
    properties, _ = _read(file)
    assert (properties.deletions, properties.data_bytes) == (1, 0)


@pytest.mark.parametrize("file", sorted((FIXTURE / "orders-app").glob("*/rocksdb/*/*.sst")), ids=str)
def test_reads_what_kafka_streams_wrote(file: Path) -> None:
    properties, samples = _read(file)
    assert properties.format_version == 6
    assert samples[-1].offset == properties.data_bytes


# What is not an SST file, or not whole


@pytest.mark.parametrize("content", [b"", b"x", b"x" * FOOTER_SIZE, b"PK\x03\x04" * 1000])
def test_refuses_foreign_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    path.write_bytes(content)
    with pytest.raises(SstFormatError, match=r"000001\.sst"):
        _read(path)


@pytest.mark.parametrize("version", [5, 6])
def test_refuses_files_that_end_early_or_have_a_hole(version: int, tmp_path: Path) -> None:
    """Where there is a hole, the footer is there, and what it points to is not."""
    whole = write_sst(tmp_path / "a.sst", numbered(200), tables=Tables(format_version=version)).read_bytes()
    cut = [whole[:size] for size in range(len(whole) - 1, 0, -37)]
    for content in (*cut, *(whole[:size] + whole[-FOOTER_SIZE:] for size in range(0, 400, 13))):
        (tmp_path / "b.sst").write_bytes(content)
        with pytest.raises(SstFormatError):
            _read(tmp_path / "b.sst")


@pytest.mark.parametrize("tables", [Tables(), Tables(compression="zstd", format_version=5), Tables(compression="lz4")])
def test_damage_raises_nothing_else(tables: Tables, tmp_path: Path) -> None:
    whole = write_sst(tmp_path / "a.sst", RECORDS, tables=tables).read_bytes()
    path = tmp_path / "b.sst"
    rng = random.Random(5)
    refused = 0
    for _ in range(400):
        content = bytearray(whole)
        at = rng.randrange(len(content) - 3000, len(content) - 8)
        content[at : at + 8] = rng.randbytes(8)
        path.write_bytes(content)
        try:
            _read(path)
        except SstFormatError:
            refused += 1
    assert 0 < refused < 400
