"""Records from all over a key space: what a run tries before it starts, and a dry run reports on."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from migrate.stores.batch import Batch
from migrate.stores.rocksdb import Database, LiveFile
from migrate.stores.sst import SstFile, SstFormatError

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


def read_sample(database: Database, family: str, size: SampleSize) -> Iterator[Batch]:
    """Runs of neighbouring records in key order, no record twice; of a store with fewer records, every one.

    The same files and the same seed give the same sample.
    """
    if database.estimated_records(family) <= size.records:
        yield from _first_ones(database.batches(family), size)
        return
    places = _places(database, family, size)
    per_place = -(-size.records // len(places))
    max_bytes = max(1, size.max_bytes // len(places))
    for start, end in pairwise([*places, None]):
        batch = database.sample(family, start, per_place, max_bytes)
        if end is not None:
            batch = batch.head(bisect_left(batch.keys, end))
        if batch.keys:
            yield batch


def _first_ones(batches: Iterator[Batch], size: SampleSize) -> Iterator[Batch]:
    records, left = size.records, size.max_bytes
    for batch in batches:
        yield batch.head(records)
        records -= len(batch)
        left -= batch.size
        if records <= 0 or left <= 0:
            return


def _places(database: Database, family: str, size: SampleSize) -> list[bytes | None]:
    """Where to begin, ascending, the first at the very beginning."""
    wanted = max(1, size.records // RUN_LENGTH) - 1
    keys = _index_keys(database.directory, database.files_of(family), wanted * _INDEX_ENTRIES_PER_PLACE)
    if len(keys) < wanted:  # much of it is in the write-ahead log, or in few, large blocks
        keys = sorted({*keys, *_grid(database, family, wanted)})
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


def _grid(database: Database, family: str, count: int) -> list[bytes]:
    """Keys near equal distances between the first and the last one, as numbers behind what they have in common."""
    first, last = next(iter(database.sample(family, None, 1).keys), None), database.last_key(family)
    if first is None or last is None or first == last:
        return []
    common = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    low, high = (_as_number(key[common : common + _GRID_BYTES]) for key in (first, last))
    steps = ((high - low) * step // (count + 1) for step in range(1, count + 1))
    grid = (last[:common] + (low + step).to_bytes(_GRID_BYTES, "big") for step in steps)
    return sorted({key for place in grid for key in database.sample(family, place, 1).keys})


def _as_number(part: bytes) -> int:
    return int.from_bytes(part.ljust(_GRID_BYTES, b"\0"), "big")
