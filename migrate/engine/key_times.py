"""The times of keys: the sorted run that is made from a changelog, and the look-up of a batch's keys in it.

A run is a RocksDB directory of its own. An entry holds a block of keys, as an entry of each key would take twice the
time to read; the entry's own key is the last one of them:

| offset | size      | field                                                                |
|--------|-----------|----------------------------------------------------------------------|
| 0      | 4         | number of keys, big-endian                                           |
| 4      | 4         | size of each key, big-endian; -1: they differ                        |
| then   | 4 each    | size of each key, big-endian; only where they differ                 |
| then   | as stated | the keys                                                             |
| then   | 8 each    | the time of each key, signed 64-bit big-endian milliseconds          |
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, pairwise
from pathlib import Path

from migrate.engine.columns import pack_times
from migrate.errors import ChunkFailedError, CorruptionError, RefusedError
from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database
from migrate.stores.rocksdb.openings import open_pooled

_RERUN = "run the command again: stateferry run SPEC makes it again from the changelog"
_HEAD = struct.Struct(">Ii")
_DIFFER = -1
_NOWHERE_MS = -(1 << 63)


def pack_block(keys: Sequence[bytes], times: Sequence[bytes]) -> bytes:
    """The block of these keys, which ascend, and of their times."""
    sizes = [*map(len, keys)]
    if len({*sizes}) == 1:
        head = _HEAD.pack(len(keys), sizes[0])
    else:
        head = _HEAD.pack(len(keys), _DIFFER) + struct.pack(f">{len(keys)}I", *sizes)
    return b"".join([head, *keys, *times])


def read_block(block: bytes) -> tuple[list[bytes], list[bytes]]:
    """The keys of a block, and their times."""
    count, size = _HEAD.unpack_from(block)
    at = _HEAD.size
    if size == _DIFFER:
        sizes = struct.unpack_from(f">{count}I", block, at)
        places = accumulate(sizes, initial=at + 4 * count)
        keys = [block[start:end] for start, end in pairwise(places)]
    else:
        keys = [*struct.unpack_from(f"{size}s" * count, block, at)]
    return keys, [*struct.unpack_from("8s" * count, block, len(block) - 8 * count)]


@contextmanager
def open_times(folder: str | None) -> Iterator[Database | None]:
    """Open a run, if there is one. Raises ChunkFailedError where it is damaged."""
    with ExitStack() as opened:
        run = None
        if folder is not None:
            with _damage_explained(Path(folder)):
                run = opened.enter_context(open_pooled(Path(folder)))
        yield run


@contextmanager
def _damage_explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except (CorruptionError, RefusedError) as error:
        raise ChunkFailedError(f"the times of keys in {folder} are damaged: {error.message}", hint=_RERUN) from error


def blocks_from(run: Database, start: bytes) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Keys and times from the block on that `start` belongs in."""
    with _damage_explained(run.directory):
        for batch in run.batches(DEFAULT_FAMILY, KeyRange(start=start)):
            yield from map(read_block, batch.values)


def keys_of(run: Database) -> list[bytes]:
    """The keys of a run, which is small, in their order."""
    return [key for keys, _ in blocks_from(run, b"") for key in keys]


class TimesColumn:
    """Looks up the keys of batches, which come in key order."""

    def __init__(self, run: Database, unknown_ms: int, prefix: bytes = b"") -> None:
        """`unknown_ms`: the time of keys that are not in the run. `prefix`: keys are in it behind this."""
        self._run = run
        self._unknown = pack_times([unknown_ms])[0]
        self._prefix = prefix
        self._blocks: Iterator[tuple[list[bytes], list[bytes]]] | None = None
        self._keys: list[bytes] = []
        self._times: list[bytes] = []

    def __call__(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """The time of each key, packed. The keys ascend strictly, also from call to call."""
        if self._prefix:
            keys = [self._prefix + key for key in keys]
        found: dict[bytes, bytes] = {}
        is_whole = False
        while not is_whole:
            is_whole = self._read(keys)
            end = bisect_right(self._keys, keys[-1])
            known, times = self._keys[:end], self._times[:end]
            self._keys, self._times = self._keys[end:], self._times[end:]
            if known == keys:
                return times
            found = found or dict.fromkeys(keys, self._unknown)
            found.update([pair for pair in zip(known, times, strict=True) if pair[0] in found])
        return [*found.values()]

    def _read(self, keys: Sequence[bytes]) -> bool:
        """Read on until there are as many entries as keys; whether there are none further up to the last key."""
        if self._blocks is None:
            self._blocks = blocks_from(self._run, keys[0])
            more, times = next(self._blocks, ([], []))
            first = bisect_left(more, keys[0])
            self._keys, self._times = more[first:], times[first:]
        while not self._keys or self._keys[-1] < keys[-1]:
            if len(self._keys) >= len(keys):
                return False
            block = next(self._blocks, None)
            if block is None:
                return True
            self._keys, self._times = self._keys + block[0], self._times + block[1]
        return True


def times_column(
    runs: Sequence[Database], unknown_ms: int, prefix: bytes = b""
) -> Callable[[Sequence[bytes]], Sequence[bytes]] | None:
    """What looks up keys as `TimesColumn` does, in runs that have no key in common; None: there is no run."""
    if len(runs) < 2:
        return TimesColumn(runs[0], unknown_ms, prefix) if runs else None
    columns = [TimesColumn(run, _NOWHERE_MS, prefix) for run in runs]
    unknown, nowhere = pack_times([unknown_ms, _NOWHERE_MS])

    def look_up(keys: Sequence[bytes]) -> list[bytes]:
        every = zip(*(column(keys) for column in columns), strict=True)
        return [next((time for time in found if time != nowhere), unknown) for found in every]

    return look_up
