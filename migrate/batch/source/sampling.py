"""Records from all over a key space: what a run tries before it starts, and a dry run reports on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from migrate.stores.batch import Batch
from migrate.stores.rocksdb.database import Database, LiveFile
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
    """Some records of one column family, or all of them."""

    is_whole: bool
    """Every record is in it."""
    batches: Iterator[Batch]


def read_sample(database: Database, family: str, size: SampleSize) -> Sample:
    """Runs of neighbouring records in key order, no record twice; of a store with fewer records, every one.

    The same files and the same seed give the same sample. At most one record more than `size.max_bytes` allows is read.
    """
    if _is_small(database, family, size):
        return Sample(is_whole=True, batches=database.batches(family))
    return Sample(is_whole=False, batches=_runs(database, family, size))


def _is_small(database: Database, family: str, size: SampleSize) -> bool:
    """RocksDB's estimate falls far short where records were deleted that were not there: small stores are counted."""
    if database.estimated_records(family) > size.records:
        return False
    records = size_read = 0
    for batch in database.batches(family):
        records += len(batch)
        size_read += batch.size
        if records > size.records or size_read > size.max_bytes:
            return False
    return True


def _runs(database: Database, family: str, size: SampleSize) -> Iterator[Batch]:
    places = _places(database, family, size)
    per_place = size.records // len(places)
    max_bytes = max(1, size.max_bytes // len(places))
    read = 0
    last: bytes | None = None
    for number, start in enumerate(places):
        if read > max_bytes * number:  # of large values fewer, and still from everywhere
            continue
        if last is not None and start is not None and start <= last:  # the run before came as far as this
            continue
        batch = database.sample(family, start, per_place, max_bytes)
        if not batch.keys:
            return
        read += batch.size
        last = batch.keys[-1]
        yield batch


def _places(database: Database, family: str, size: SampleSize) -> list[bytes | None]:
    """Where to begin, ascending, the first at the very beginning."""
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
        try:
            with SstFile(directory / file.name) as sst:
                keys |= {sample.key for sample in sst.index_samples(1 + wanted * file.size // total)}
        except (SstFormatError, FileNotFoundError):
            continue  # read nothing from it here; whoever scans it says what is wrong
    return sorted(keys - {b""})


def _walk(database: Database, family: str, max_bytes: int) -> list[bytes]:
    """Every so manieth key of all; none where there is more to read than that."""
    keys: list[bytes] = []
    for batch in database.batches(family):
        max_bytes -= batch.size
        if max_bytes < 0:
            return []
        keys += batch.keys[::RUN_LENGTH]
    return [key for key in keys if key]


def _grid(database: Database, family: str, count: int) -> list[bytes]:
    """Places at equal distances between the first and the last one, as numbers behind what they have in common."""
    first, last = next(iter(database.sample(family, None, 1).keys), None), database.last_key(family)
    if first is None or last is None or first == last:
        return []
    common = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    low, high = (_as_number(key[common : common + _GRID_BYTES]) for key in (first, last))
    steps = ((high - low) * step // (count + 1) for step in range(1, count + 1))
    return sorted({last[:common] + (low + step).to_bytes(_GRID_BYTES, "big") for step in steps})


def _as_number(part: bytes) -> int:
    return int.from_bytes(part.ljust(_GRID_BYTES, b"\0"), "big")
