"""Samples: the same each time, from everywhere, no record twice, bounded in records and in bytes."""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.stores.rocksdb.database import open_read_only
from tests.dry_run.support import planned, write_runs
from tests.support import Tables, make_runs, make_store, numbered, raw_spec

MANY = 40_000


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same records in one file, in overlapping files, in the log alone, and in huge blocks."""
    folder = tmp_path_factory.mktemp("stores")
    records = numbered(MANY)
    keys = list(records)
    runs = [{"default": {key: records[key] for key in keys[start::3]}} for start in range(3)]
    return {
        "one file": make_store(folder / "one", records),
        "overlapping files": make_runs(folder / "three", runs),
        "log": make_store(folder / "log", records, flush=False),
        "huge blocks": make_store(folder / "blocks", records, tables=Tables(block_size=1 << 19)),
        "partitioned index": make_store(folder / "parts", records, tables=Tables(partitioned_index=True)),
    }


@contextmanager
def sampled(store: Path, size: SampleSize) -> Iterator[tuple[list[bytes], bool]]:
    """The keys, and whether these were all."""
    with open_read_only(store) as database:
        sample = read_sample(database, "default", size)
        yield [key for batch in sample.batches for key in batch.keys], sample.is_whole


STORES = ["one file", "overlapping files", "log", "huge blocks", "partitioned index"]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("count", [1, 19, 20, 400, 5000])
def test_a_sample_is_of_that_size_at_most_ascending_and_without_repetition(
    stores: dict[str, Path], name: str, count: int
) -> None:
    with sampled(stores[name], SampleSize(count, 1 << 30, seed=3)) as (keys, is_whole):
        assert 0 < len(keys) <= count
        assert not is_whole
        assert keys == sorted(set(keys))


@pytest.mark.parametrize("name", STORES)
def test_every_tenth_of_the_store_is_in_the_sample(stores: dict[str, Path], name: str) -> None:
    records = list(numbered(MANY))
    for seed in range(3):
        with sampled(stores[name], SampleSize(2000, 1 << 30, seed=seed)) as (keys, _):
            tenths = {bisect_left(records, key) * 10 // MANY for key in keys}
            assert tenths == set(range(10))


@pytest.mark.parametrize("name", STORES)
def test_the_same_seed_gives_the_same_sample_and_another_one_another(stores: dict[str, Path], name: str) -> None:
    found = []
    for seed in (1, 1, 2):
        with sampled(stores[name], SampleSize(1000, 1 << 30, seed=seed)) as (keys, _):
            found.append(keys)
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_sample_as_large_as_the_store_is_the_store(stores: dict[str, Path]) -> None:
    for name in STORES:
        with sampled(stores[name], SampleSize(MANY, 1 << 30)) as (keys, is_whole):
            assert is_whole
            assert keys == list(numbered(MANY))


def test_large_values_are_sampled_more_thinly_and_still_from_everywhere(tmp_path: Path) -> None:
    """Of 1 MiB, and one of 5: a few MiB and one record more are read, and they are not counted as all."""
    size = 1 << 20
    values = {b"%04d" % number: bytes(size) for number in range(150)} | {b"0075": bytes(5 * size)}
    store = make_store(tmp_path / "state", values)
    with sampled(store, SampleSize(10_000, 8 * size)) as (keys, is_whole):
        assert not is_whole
        assert sum(len(values[key]) for key in keys) <= 8 * size + 5 * size
    with sampled(store, SampleSize(10_000, 40 * size)) as (keys, _):
        assert {int(key) * 10 // 150 for key in keys} == set(range(10))
    found = planned(raw_spec(tmp_path, store), sample=10_000).found
    assert not found.exact
    assert found.at_least <= 150 <= found.at_most


def test_many_deletions_do_not_make_the_sample_the_beginning_of_the_store(tmp_path: Path) -> None:
    """RocksDB's estimate is far too low: the store is taken for a small one."""
    store = write_runs(
        tmp_path / "state", [dict(numbered(9000)), {b"zzz%d" % number: None for number in range(9000)}], flush=True
    )
    with sampled(store, SampleSize(500, 1 << 30)) as (keys, is_whole):
        assert not is_whole
        assert {int(key[4:]) * 10 // 9000 for key in keys} == set(range(10))


def test_two_dry_runs_with_one_seed_give_the_same_report(stores: dict[str, Path], tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, stores["one file"])
    reports = [planned(spec, sample=500, seed=seed) for seed in (5, 5, 6)]
    told = [(report.found, report.tried) for report in reports]
    assert told[0] == told[1]
    assert reports[0].tried != reports[2].tried
    chunks = [report.cost.chunks for report in reports]
    assert chunks[0] == chunks[1] == chunks[2]


def test_sizes_of_a_sample_come_near_those_of_all_records(tmp_path: Path) -> None:
    """A tenth of the records has large values: places are chosen by bytes, and weighted back."""
    records = {
        key: value * (40 if number % 1000 < 100 else 1) for number, (key, value) in enumerate(numbered(30_000).items())
    }
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", records))
    found = planned(spec, sample=4000).found
    assert found.value_sizes is not None
    large = sum(share for bound, share in found.value_sizes.buckets if bound > 100)
    assert large == pytest.approx(0.1, abs=0.04)
    assert (found.value_sizes.p50, found.value_sizes.p99) == (20, 800)


def test_the_log_alone_gives_sizes_too(stores: dict[str, Path], tmp_path: Path) -> None:
    report = planned(raw_spec(tmp_path, stores["log"]), sample=100)
    assert report.found.value_sizes is not None
    assert report.found.value_sizes.buckets == ((32, 1.0),)
    assert report.cost.new_bytes > MANY * 32
    assert "nan" not in report.model_dump_json().lower()
