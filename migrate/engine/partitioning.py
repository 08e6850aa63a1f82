"""The partitions of serialized keys, by columns: the partitioners of `formats.partitioners` over many keys at once."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from formats.partitioners import Partitioner, murmur2

Numbers = npt.NDArray[np.int64]
Hash = Callable[[Sequence[bytes], int | None], Numbers]
"""From serialized keys, and the size that all have, to numbers from 0 on; the rest of a division is the partition."""
_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
_LONGEST = 1024
"""Longer keys are hashed one by one: each key takes the room of the longest one."""


def murmur2_hashes(keys: Sequence[bytes], size: int | None = None) -> Numbers:
    """What Kafka's own clients divide: the hash without its sign. `size`: that of every key; None: they may differ."""
    if size is None:
        sizes = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
        found = _of_sizes(keys, sizes)
    else:
        found = _of_one_size(np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), size))
    return (found & np.uint32(0x7FFFFFFF)).astype(np.int64)


def _of_one_size(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    count, size = rows.shape
    width = -(-size // 4)
    if size % 4:
        padded = np.zeros((count, width * 4), np.uint8)
        padded[:, :size] = rows
        rows = padded
    columns = np.ascontiguousarray(np.ascontiguousarray(rows).view("<u4").reshape(count, width).T)
    found = np.full(count, _SEED ^ np.uint32(size), np.uint32)
    for column in columns[: size // 4]:
        found = _mixed(found, column)
    if size % 4:
        found = (found ^ columns[-1]) * _M
    return _finished(found)


def _of_sizes(keys: Sequence[bytes], sizes: Numbers) -> npt.NDArray[np.uint32]:
    width = -(-int(sizes.max(initial=0)) // 4) * 4
    if width > _LONGEST:
        return np.fromiter(map(murmur2, keys), dtype=np.uint32, count=len(keys))
    words = np.frombuffer(b"".join([key.ljust(width, b"\0") for key in keys]), dtype="<u4").reshape(
        len(keys), width // 4
    )
    order = np.argsort(-sizes, kind="stable")  # keys that have a word are in front
    columns, longest_first = np.ascontiguousarray(words[order].T), sizes[order]
    found = _SEED ^ longest_first.astype(np.uint32)
    for number, column in enumerate(columns):
        whole = int(np.searchsorted(-longest_first, -4 * (number + 1), side="right"))
        found[:whole] = _mixed(found[:whole], column[:whole])
        left = int(np.searchsorted(-longest_first, -4 * number - 1, side="right"))
        found[whole:left] = (found[whole:left] ^ column[whole:left]) * _M
    result = np.empty_like(found)
    result[order] = _finished(found)
    return result


def _mixed(found: npt.NDArray[np.uint32], column: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    word = column * _M
    word ^= word >> np.uint32(24)
    return found * _M ^ word * _M


def _finished(found: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    found = (found ^ found >> np.uint32(13)) * _M
    return found ^ found >> np.uint32(15)


def crc32_hashes(keys: Sequence[bytes], size: int | None = None) -> Numbers:
    """What librdkafka's `consistent` divides."""
    return np.fromiter(map(zlib.crc32, keys), dtype=np.int64, count=len(keys))


_HASHES: Mapping[str, Hash] = {"murmur2": murmur2_hashes, "crc32": crc32_hashes}


def partitions_of(
    name: str,
    keys: Sequence[bytes],
    counts: Sequence[int],
    function: Partitioner | None = None,
    *,
    size: int | None = None,
) -> list[Numbers]:
    """For each number of partitions in `counts`, the partition of each key; by `function` where there is one.

    `size`: that of every key; None: they may differ.
    """
    if function is not None:
        return [np.fromiter((function(key, many) for key in keys), np.int64, len(keys)) for many in counts]
    hashes = _HASHES[name](keys, size)
    return [hashes % many for many in counts]
