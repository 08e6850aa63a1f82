"""Records of RocksDB copied into the buffers of Arrow's columns, by a compiled loop.

Records of one column family alone, each of which is an entry by itself; all others are read by `ChunkSource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from migrate.engine.native import words as loop
from migrate.engine.native.compiled import compiled
from migrate.engine.native.passes import FUNCTIONS, LARGE_BYTES, Block
from migrate.engine.rows.arrays import Bytes
from migrate.engine.rows.spans import Gathered, Spans, check_fits
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_api import NativeDatabase, give_memory_back, library
from migrate.stores.rocksdb.openings import open_pooled
from migrate.stores.rocksdb.scan import damaged

_KEY_ROOM = 1 << 20
_BEHIND = 8
"""Bytes behind the last span, as `Spans` has them."""
_ROOMS = {
    loop.KEY_FULL: (loop.KEY_ROOM, loop.KEY_ROOM_SIZE, loop.KEY_SIZE),
    loop.VALUE_FULL: (loop.VALUE_ROOM, loop.VALUE_ROOM_SIZE, loop.VALUE_SIZE),
}


def gather(
    database: NativeDatabase, family: str, keys: KeyRange, most_records: int, most_bytes: int
) -> Iterator[Gathered]:
    """Every record of a family in the range, so many at a time at most, or once they have so many bytes.

    Raises CorruptionError unless the range was read whole (I4), ChunkFailedError for a record that no column holds.
    """
    run, block, api = compiled("gather"), Block(), library()
    block[loop.MOST_RECORDS], block[loop.MOST_BYTES] = most_records, most_bytes
    for word, name in FUNCTIONS.items():
        block[word] = api.address(name)
    sizes = {loop.KEY_FULL: _KEY_ROOM, loop.VALUE_FULL: most_bytes}
    last: bytes | None = None
    with database.iterator(family, keys) as source:
        block[loop.SOURCE] = source.pointer
        outcome = loop.PAUSED
        while outcome != loop.ENDED:
            made = _Rooms(block, sizes, most_records)
            outcome = run(block.address)
            if count := block[loop.READ]:
                found = made.first(count)
                last = found.keys[-1]
                yield found
                del found, made
            elif outcome in _ROOMS:  # the first record alone is larger
                sizes[outcome] = block[_ROOMS[outcome][2]]
                check_fits(sizes[outcome])
            if block[loop.VALUE_SIZE] >= LARGE_BYTES:
                give_memory_back()
        error = source.error()
    if error:
        _read_as_rocksdict_does(database.directory, family, KeyRange(start=last or keys.start, end=keys.end))
        raise damaged(f"column family {family!r} of {database.directory}", last or keys.start, error)


class _Rooms:
    """Buffers of one batch, which is what refers to them later."""

    def __init__(self, block: Block, sizes: Mapping[int, int], most_records: int) -> None:
        self._columns: list[tuple[Bytes, np.ndarray[tuple[int], np.dtype[np.int64]]]] = []
        for (full, (word, size_word, _)), ends_word in zip(
            _ROOMS.items(), (loop.KEY_ENDS, loop.VALUE_ENDS), strict=True
        ):
            room, ends = np.empty(sizes[full] + _BEHIND, np.uint8), np.zeros(most_records + 1, np.int64)
            block.refer(word, room)
            block[size_word] = sizes[full]
            block.refer(ends_word, ends[1:])
            self._columns.append((room, ends))

    def first(self, count: int) -> Gathered:
        """The first records, whose buffers have no more than those."""
        for room, ends in self._columns:
            room.resize(ends[count] + _BEHIND, refcheck=False)
        return Gathered(*(Spans(room, ends[:count], ends[1 : count + 1]) for room, ends in self._columns))


def _read_as_rocksdict_does(directory: Path, family: str, keys: KeyRange) -> None:
    """Raises CorruptionError where that finds what is damaged, which it explains."""
    with open_pooled(directory) as database:
        for _ in database.batches(family, keys):
            pass
