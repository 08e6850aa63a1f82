"""Chunk bounds from metadata: even, covering, deterministic, and cheap."""

import os
import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import IngestExternalFileOptions

from migrate import plan
from migrate.batch.plan.cut import Cuts, cut
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.sst import SstFile
from migrate.stores.rocksdb.writing import TableOptions, create_database
from tests.support import Tables, make_runs, make_store, numbered, open_store, raw_spec, write_sst

Skewed = Mapping[bytes, bytes]


def _cut(path: Path, chunk_size: int) -> Cuts:
    with open_read_only(path) as database:
        return cut([(path / file.name, file.last_key) for file in database.live_files], chunk_size)


def _check_cover(ranges: tuple[KeyRange, ...]) -> None:
    """Disjoint, half-open, and all keys."""
    assert ranges[0].start is None
    assert ranges[-1].end is None
    for before, after in pairwise(ranges):
        assert before.end == after.start
    assert not any(keys.is_empty for keys in ranges)


def _real_sizes(ranges: tuple[KeyRange, ...], records: Mapping[bytes, bytes]) -> list[int]:
    """Bytes of keys and values that really lie in each range."""
    sizes = [0] * len(ranges)
    at = 0
    for key in sorted(records):
        while key not in ranges[at]:
            at += 1
        sizes[at] += len(key) + len(records[key])
    return sizes


def _skewed(count: int, *, value_size: int) -> dict[bytes, bytes]:
    """95 % of the records under one prefix of three bytes."""
    rng = random.Random(11)
    records: dict[bytes, bytes] = {}
    while len(records) < count:
        prefix = b"\x42\x42\x42" if rng.random() < 0.95 else rng.randbytes(3)
        records[prefix + rng.randbytes(8)] = rng.randbytes(value_size)
    return records


def _compacted(path: Path, records: Skewed, *, tables: Tables | None = None) -> Path:
    """One SST file, as a full compaction leaves it."""
    file = write_sst(path.with_suffix(".sst"), records, tables=tables)
    with open_store(path, tables=tables) as database:
        move = IngestExternalFileOptions()
        move.set_move_files(True)
        database.ingest_external_file([str(file)], move)
    assert len(list(path.glob("*.sst"))) == 1
    return path


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """How many bytes of each SST are read."""
    read: Counter[Path] = Counter()
    original = SstFile.__exit__

    def counted(self: SstFile, *error: object) -> None:
        read[self.path] += self.bytes_read
        original(self, *error)

    monkeypatch.setattr(SstFile, "__exit__", counted)
    return read


def _check_even(cuts: Cuts, records: Skewed) -> None:
    _check_cover(cuts.ranges)
    sizes = _real_sizes(cuts.ranges, records)
    assert sum(sizes) == sum(len(key) + len(value) for key, value in records.items())
    assert max(sizes) < 3 * median(sizes)
    assert min(sizes) > median(sizes) / 3


@pytest.mark.parametrize("wanted", [14, 40])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_skewed_keys_still_give_even_chunks(
    wanted: int, compression: str, tmp_path: Path, bytes_read: Counter[Path]
) -> None:
    records = _skewed(120_000, value_size=100)
    tables = Tables(compression=compression)
    path = _compacted(tmp_path / "db", records, tables=tables)
    total = sum(len(key) + 8 + len(value) for key, value in records.items())
    cuts = _cut(path, total // wanted)
    assert wanted - 1 <= len(cuts.ranges) <= wanted + 1
    _check_even(cuts, records)
    assert 0 < bytes_read.total() < 0.02 * sum(file.stat().st_size for file in path.glob("*.sst"))


@pytest.mark.parametrize("wanted", [14, 40])
def test_two_million_skewed_records_give_even_chunks(wanted: int, tmp_path: Path, bytes_read: Counter[Path]) -> None:
    records = _skewed(2_000_000, value_size=100)
    path = _compacted(tmp_path / "db", records)
    (file,) = path.glob("*.sst")
    size = file.stat().st_size
    with open_read_only(path) as database:
        files = [(path / live.name, live.last_key) for live in database.live_files]
        _forget_pages(file)
        before = _bytes_read_from_disk()
        cuts = cut(files, sum(len(key) + 8 + len(value) for key, value in records.items()) // wanted)
        assert _bytes_read_from_disk() - before < 0.02 * size
    assert wanted - 1 <= len(cuts.ranges) <= wanted + 1
    _check_even(cuts, records)
    assert 0 < bytes_read.total() < 0.02 * size


def _forget_pages(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _bytes_read_from_disk() -> int:
    """By this process, mapped files included: what the kernel fetched, not what was asked for."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


@pytest.mark.parametrize("runs", [3, 12])
def test_overlapping_runs_are_weighed_together(runs: int, tmp_path: Path) -> None:
    """Each run holds keys from the whole range, in places of its own."""
    rng = random.Random(3)
    parts = [{rng.randbytes(10): rng.randbytes(100) for _ in range(40_000 // runs)} for _ in range(runs)]
    path = make_runs(tmp_path / "db", [{"default": part} for part in parts])
    assert len(list(path.glob("*.sst"))) == runs
    records = {key: value for part in parts for key, value in part.items()}
    cuts = _cut(path, 300_000)
    _check_cover(cuts.ranges)
    sizes = _real_sizes(cuts.ranges, records)
    assert 13 <= len(sizes) <= 18
    assert max(sizes) < 2 * median(sizes)


def test_runs_of_the_same_keys_share_their_bounds(tmp_path: Path) -> None:
    path = make_runs(tmp_path / "db", [{"default": numbered(500, value_size=100, seed=seed)} for seed in range(6)])
    cuts = _cut(path, 1000)
    _check_cover(cuts.ranges)
    assert len(cuts.ranges) > 10


def test_a_large_run_and_small_ones(tmp_path: Path) -> None:
    large = numbered(40_000, value_size=100)
    small = [{b"key-%08d" % (n * 40 + run): b"x" * 50 for n in range(50)} for run in range(20)]
    path = make_runs(tmp_path / "db", [{"default": part} for part in (large, *small)])
    cuts = _cut(path, 500_000)
    sizes = _real_sizes(cuts.ranges, large)
    assert len(sizes) >= 9
    assert max(sizes) < 2 * median(sizes)


def test_families_of_one_directory_are_cut_together(tmp_path: Path) -> None:
    low, high = numbered(10_000, value_size=50, prefix=b"a"), numbered(10_000, value_size=50, prefix=b"z")
    path = make_runs(tmp_path / "db", [{"default": low, "other": high}])
    sizes = _real_sizes(_cut(path, 200_000).ranges, low | high)
    assert len(sizes) >= 6
    assert max(sizes) < 2 * median(sizes)


@given(
    records=st.dictionaries(st.binary(min_size=1, max_size=4), st.binary(max_size=200), max_size=80),
    chunk_size=st.integers(1, 5000),
)
@settings(max_examples=60)
def test_any_store_is_covered(
    tmp_path_factory: pytest.TempPathFactory, records: dict[bytes, bytes], chunk_size: int
) -> None:
    path = make_store(tmp_path_factory.mktemp("db") / "db", records, tables=Tables(block_size=64))
    cuts = _cut(path, chunk_size)
    _check_cover(cuts.ranges)
    assert len(cuts.sizes) == len(cuts.ranges)
    assert sum(_real_sizes(cuts.ranges, records)) == sum(len(key) + len(value) for key, value in records.items())


def test_the_same_files_give_the_same_cuts(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", _skewed(20_000, value_size=40))
    assert _cut(path, 100_000) == _cut(path, 100_000)


@pytest.mark.parametrize("flush", [True, False])
def test_without_tables_there_is_one_chunk(flush: bool, tmp_path: Path) -> None:
    records = numbered(100) if not flush else {}
    path = make_store(tmp_path / "db", records, flush=flush)
    assert _cut(path, 10).ranges == (KeyRange(),)


def test_a_chunk_larger_than_the_store_is_all_of_it(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(20_000))
    assert _cut(path, 1 << 30).ranges == (KeyRange(),)


def test_a_table_that_cannot_be_weighed_makes_chunks_uneven_not_wrong(tmp_path: Path) -> None:
    path = make_runs(tmp_path / "db", [{"default": numbered(10_000, seed=seed)} for seed in range(2)])
    with open_read_only(path) as database:
        files = [(path / live.name, live.last_key) for live in database.live_files]
    files[0][0].write_bytes(b"not a table")
    cuts = cut(files, 50_000)
    _check_cover(cuts.ranges)
    assert len(cuts.ranges) > 3


def test_damaged_tables_never_stop_the_plan(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(5000))
    (file,) = path.glob("*.sst")
    with open_read_only(path) as database:
        files = [(path / live.name, live.last_key) for live in database.live_files]
    whole = file.read_bytes()
    rng = random.Random(7)
    for _ in range(300):
        at = rng.randrange(len(whole) - 3000, len(whole) - 8)
        file.write_bytes(whole[:at] + rng.randbytes(8) + whole[at + 8 :])
        _check_cover(cut(files, 20_000).ranges)


def test_planning_opens_no_file_for_writing(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(5000))
    for file in path.iterdir():
        file.chmod(0o444)
    path.chmod(0o555)
    try:
        assert len(_cut(path, 20_000).ranges) > 3
    finally:
        path.chmod(0o755)


def _many(path: Path, files: int, *, runs: int = 1) -> Path:
    """Tables of 20 records that cover the same keys in each of several runs: all but the first are in level 0."""
    path.parent.mkdir(exist_ok=True)
    create_database(path, {"default": TableOptions()}, {"default": []}, {})
    for run in range(runs):
        made = [
            write_sst(
                path.parent / f"{run}-{number}.sst",
                {b"key-%08d" % (20 * number + at): bytes([run]) * 100 for at in range(20)},
            )
            for number in range(files // runs)
        ]
        move = IngestExternalFileOptions()
        move.set_move_files(True)
        with open_store(path) as database:
            database.ingest_external_file([str(file) for file in made], move)
    assert len(list(path.glob("*.sst"))) == files
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each SST is opened, by inode: a hard link is the same file."""
    times: Counter[int] = Counter()
    original = SstFile.__init__

    def counted(self: SstFile, path: Path) -> None:
        times[path.stat().st_ino] += 1
        original(self, path)

    monkeypatch.setattr(SstFile, "__init__", counted)
    return times


@pytest.mark.parametrize("runs", [1, 3])
def test_many_small_files_are_cut_evenly_by_their_last_keys(runs: int, tmp_path: Path, opened: Counter[int]) -> None:
    path = _many(tmp_path / "db", 900, runs=runs)
    total = 900 * 20 * (12 + 8 + 100)
    cuts = _cut(path, total // 10)
    _check_cover(cuts.ranges)
    keys = {b"key-%08d" % at: b"x" * 100 for at in range(900 * 20 // runs)}
    sizes = _real_sizes(cuts.ranges, keys)
    assert 10 <= len(sizes) <= 11
    assert max(sizes[:-1]) < 1.2 * median(sizes)
    assert set(opened.values()) == {1}


def test_the_samples_of_many_files_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Counter[int]
) -> None:
    """With a chunk for each file every index would be read; beyond the bound none is."""
    path = _many(tmp_path / "db", 300)
    monkeypatch.setattr("migrate.batch.plan.cut.MOST_SAMPLES", 200)
    cuts = _cut(path, 20 * 120)
    _check_cover(cuts.ranges)
    assert len(cuts.ranges) > 250
    assert set(opened.values()) == {1}  # for its properties


@pytest.mark.parametrize("files", [100, 400])
def test_a_plan_reads_each_table_once(files: int, tmp_path: Path, opened: Counter[int]) -> None:
    source = _many(tmp_path / "db", files)
    report = plan(raw_spec(tmp_path, source), sample=100)
    assert report.verdict.go
    assert len(opened) == files
    assert sum(opened.values()) <= files + 10
