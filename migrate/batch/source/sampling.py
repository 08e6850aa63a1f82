"""Sampled records from the whole key space, which a run converts before it starts and a dry run reports on."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from migrate.stores.batch import Batch
from migrate.stores.rocksdb.database import Database, LiveFile
from migrate.stores.rocksdb.scan import OnColumns
from migrate.stores.rocksdb.sst import SstFile, SstFormatError

RUN_LENGTH = 20
"""Records that are read in a row: a seek costs as much as reading a hundred."""
_INDEX_ENTRIES_PER_PLACE = 2
_GRID_BYTES = 8


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How much to read of one column family."""

    records: int
    max_bytes: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the records of one column family."""

    is_whole: bool
    """Whether the sample has every record."""
    batches: Iterator[Batch]


def read_sample(database: Database, family: str, size: SampleSize, on_columns: OnColumns | None = None) -> Sample:
    """A sample of runs of neighbouring records in key order, or every record of a store that has fewer.

    The same files and the same seed give the same sample. It exceeds `size.max_bytes` by at most one record.
    `on_columns`: for wide-column records, where the store may have them.
    """
    if _is_small(database, family, size):
        return Sample(is_whole=True, batches=database.batches(family, on_columns=on_columns))
    return Sample(is_whole=False, batches=_runs(database, family, size, on_columns))


def read_named(database: Database, family: str, keys: Sequence[bytes], size: SampleSize) -> Sample:
    """A sample of the records of these keys, as far as the family has them, in key order."""
    found: dict[bytes, bytes] = {}
    left = size.max_bytes
    for key in random.Random(size.seed).sample(keys, len(keys)):
        if len(found) == size.records or left <= 0:
            break
        if (value := database.get(family, key)) is not None:
            found[key] = value
            left -= len(key) + len(value)
    ordered = sorted(found)
    runs = (ordered[at : at + RUN_LENGTH] for at in range(0, len(ordered), RUN_LENGTH))
    return Sample(is_whole=False, batches=(Batch(run, [found[key] for key in run]) for run in runs))


def _is_small(database: Database, family: str, size: SampleSize) -> bool:
    """Whether the family fits the sample; counted, since deletions of absent records mislead RocksDB's estimate."""
    if database.estimated_records(family) > size.records:
        return False
    records = size_read = 0
    for batch in database.batches(family):
        records += len(batch)
        size_read += batch.size
        if records > size.records or size_read > size.max_bytes:
            return False
    return True


def _runs(database: Database, family: str, size: SampleSize, on_columns: OnColumns | None) -> Iterator[Batch]:
    places = _places(database, family, size)
    per_place = size.records // len(places)
    max_bytes = max(1, size.max_bytes // len(places))
    read = 0
    last: bytes | None = None
    for number, start in enumerate(places):
        if read > max_bytes * number:  # fewer of large values, still from everywhere
            continue
        if last is not None and start is not None and start <= last:  # the previous run has passed this key
            continue
        batch = database.sample(family, start, per_place, max_bytes, on_columns=on_columns)
        if not batch.keys:
            return
        read += batch.size
        last = batch.keys[-1]
        yield batch


def _places(database: Database, family: str, size: SampleSize) -> list[bytes | None]:
    """The keys at which runs start, ascending; None: the beginning of the family."""
    wanted = max(1, size.records // RUN_LENGTH) - 1
    keys = _index_keys(database.directory, database.files_of(family), wanted * _INDEX_ENTRIES_PER_PLACE)
    if len(keys) < wanted:  # much of it is in the write-ahead log, or in few, large blocks
        keys = _walk(database, family, size.max_bytes) or sorted({*keys, *_grid(database, family, wanted)})
    chosen = sorted(random.Random(size.seed).sample(keys, min(wanted, len(keys))))
    return [None, *chosen]


def _index_keys(directory: Path, files: list[LiveFile], wanted: int) -> list[bytes]:
    """Keys at equal distances, in bytes, from the files' own indexes."""
    if wanted <= 0:
        return []
    total = sum(file.size for file in files) or 1
    keys: set[bytes] = set()
    for file in files:
        more = wanted * file.size // total
        if not more and file.last_key:  # of many files, not one needs to be opened
            keys.add(file.last_key)
            continue
        try:
            with SstFile(directory / file.name) as sst:
                keys |= {sample.key for sample in sst.index_samples(1 + more)}
        except (SstFormatError, FileNotFoundError):
            continue  # a scan of the file reports what is wrong with it
    return sorted(keys - {b""})


def _walk(database: Database, family: str, max_bytes: int) -> list[bytes]:
    """Every n-th key of the family, where n is RUN_LENGTH; none where it exceeds `max_bytes`."""
    keys: list[bytes] = []
    for batch in database.batches(family):
        max_bytes -= batch.size
        if max_bytes < 0:
            return []
        keys += batch.keys[::RUN_LENGTH]
    return [key for key in keys if key]


def _grid(database: Database, family: str, count: int) -> list[bytes]:
    """Keys at equal distances between the first and the last key, as numbers behind their common prefix."""
    first, last = next(iter(database.sample(family, None, 1).keys), None), database.last_key(family)
    if first is None or last is None or first == last:
        return []
    common = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    parts = (key[common : common + _GRID_BYTES].ljust(_GRID_BYTES, b"\0") for key in (first, last))
    low, high = (int.from_bytes(part, "big") for part in parts)
    steps = ((high - low) * step // (count + 1) for step in range(1, count + 1))
    return sorted({last[:common] + (low + step).to_bytes(_GRID_BYTES, "big") for step in steps})
