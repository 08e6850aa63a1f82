"""Cutting RocksDB directories into chunks and ranges by the SST files' own indexes, without reading the data."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from migrate.model.key_range import KeyRange, subtract
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.sst import SstFile, SstFormatError, TableProperties, table_properties

SAMPLES_PER_CHUNK = 64
MOST_SAMPLES = 1 << 16
"""Samples of all files together, besides one for each file: with very many chunks, each chunk has fewer."""
LEAST_BYTES = 16 << 20
"""The smallest range that is worth a task of its own."""
_RANGES_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes of records, before compression, between the previous sample and this key."""

    key: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """The chunks of one RocksDB directory."""

    ranges: tuple[KeyRange, ...]
    sizes: tuple[int, ...]


def cut(files: Iterable[tuple[Path, bytes]], chunk_size: int) -> Cuts:
    """Half-open ranges that cover every key (I3), of about `chunk_size` bytes of records each.

    `files`: SST files, of one RocksDB directory or of several that are read as one, each with its last key, or b"" if
    that is unknown. A file much smaller than a chunk is counted at its last key, and its index is not read.

    Deterministic: the same files give the same cuts. A directory without SST files is one chunk.
    """
    live = [(path, last_key, properties) for path, last_key in files if (properties := _properties(path)) is not None]
    total = sum(properties.raw_bytes for _, _, properties in live)
    samples = min(SAMPLES_PER_CHUNK * -(-total // chunk_size), MOST_SAMPLES)
    weights: list[Weight] = []
    for path, last_key, properties in live:
        more = samples * properties.raw_bytes // max(total, 1)
        if more or not last_key:
            weights += _weigh(path, properties, 1 + more)
        else:
            weights.append(Weight(last_key + b"\0", properties.raw_bytes))
    weights.sort(key=lambda weight: weight.key)
    bounds, sizes = _cut_evenly(weights, chunk_size)
    edges = [None, *bounds, None]
    ranges = tuple(KeyRange(start=start, end=end) for start, end in pairwise(edges))
    return Cuts(ranges, tuple(sizes))


def slot_share(whole: int, slots: int) -> int:
    """How many bytes a range has of which each slot gets some, so that all slots end at about the same time."""
    return max(LEAST_BYTES, whole // (_RANGES_PER_SLOT * max(1, slots)))


def _properties(path: Path) -> TableProperties | None:
    """None where they cannot be read: without the file's weight chunks are less even, but still correct."""
    try:
        return table_properties(path)
    except (SstFormatError, FileNotFoundError):
        return None


def _weigh(path: Path, properties: TableProperties, wanted: int) -> list[Weight]:
    try:
        with SstFile(path) as file:
            samples = file.index_samples(wanted)
    except (SstFormatError, FileNotFoundError):
        return []
    expansion = properties.raw_bytes / max(properties.data_bytes, 1)
    offsets = [0, *(sample.offset for sample in samples)]
    sizes = [int((after - before) * expansion) for before, after in pairwise(offsets)]
    return [Weight(sample.key, size) for sample, size in zip(samples, sizes, strict=True)]


def _cut_evenly(weights: list[Weight], chunk_size: int) -> tuple[list[bytes], list[int]]:
    """(inner bounds, size of each chunk). A bound is a key of an index: the block after it holds no smaller key."""
    total = sum(weight.size for weight in weights)
    count = max(1, -(-total // chunk_size))
    bounds: list[bytes] = []
    sizes: list[int] = []
    passed = start = 0
    for weight in weights[:-1]:
        if len(bounds) + 1 == count:
            break
        passed += weight.size
        share = (total - start) / (count - len(bounds))
        if passed - start >= share and weight.key and (not bounds or weight.key > bounds[-1]):
            bounds.append(weight.key)
            sizes.append(passed - start)
            start = passed
    return bounds, [*sizes, total - start]


def key_ranges(directories: Sequence[Path], size: int) -> list[KeyRange]:
    """Ranges from the first to the last possible key, with about `size` bytes of the SST files in each."""
    return ranges_between(cut_points(directories, size))


def cut_points(directories: Sequence[Path], size: int) -> list[bytes]:
    """Keys, in order, with about `size` bytes of the SST files between each and the next."""
    files = [file for each in directories for file in database_files(each).immutable if file.suffix == ".sst"]
    cuts = cut([(file, b"") for file in files], size)
    return sorted({keys.start for keys in cuts.ranges if keys.start})


def ranges_between(points: Sequence[bytes], done: Iterable[KeyRange] = ()) -> list[KeyRange]:
    """All possible keys but those in `done`, cut at these points: between two points nothing can be left out."""
    found: list[KeyRange] = []
    for gap in subtract(KeyRange(), done):
        first = bisect_right(points, gap.start or b"")
        last = len(points) if gap.end is None else bisect_left(points, gap.end)
        edges = [gap.start, *points[first:last], gap.end]
        found += [KeyRange(start=start, end=end) for start, end in pairwise(edges)]
    return found
