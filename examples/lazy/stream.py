"""The stream: a file of events, one `name amount` a line, and how far a processor has read it.

The number of events that are counted lies in the processor's own store, under a key that no name has, and is written in
one batch with the counts. So a kill leaves the state after some event, whole, and the processor goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from migrate import StateStore

OFFSET_KEY = b"offset"
NAME_PREFIX = b"name/"
BATCH_EVENTS = 100


class NameSerde:
    """A name is the store's key, behind a prefix that keeps it apart from the offset's."""

    name = "prefixed-ascii"

    def encode(self, name: str) -> bytes:
        """The key in the store."""
        return NAME_PREFIX + name.encode()

    def decode(self, key: bytes) -> str:
        """The name again."""
        return key.removeprefix(NAME_PREFIX).decode()


@dataclass(frozen=True, slots=True)
class Batch:
    """Some events, and the offset once they are counted."""

    events: list[tuple[str, int]]
    next_offset: int

    @property
    def names(self) -> list[str]:
        """Each name once."""
        return list(dict.fromkeys(name for name, _ in self.events))


def read_events(file: Path) -> Iterator[tuple[str, int]]:
    """Every event of the stream: a name and an amount."""
    with file.open(encoding="ascii") as lines:
        for line in lines:
            name, amount = line.split()
            yield name, int(amount)


def batches(file: Path, offset: int) -> Iterator[Batch]:
    """What comes from `offset` on."""
    events = islice(read_events(file), offset, None)
    while found := list(islice(events, BATCH_EVENTS)):
        offset += len(found)
        yield Batch(found, offset)


def offset_of(store: StateStore) -> int:
    """How many events the state counts."""
    return int.from_bytes(store.get(OFFSET_KEY) or b"")


def offset_entry(offset: int) -> tuple[bytes, bytes]:
    """What the store is to hold of an offset: the same bytes in both versions."""
    return OFFSET_KEY, offset.to_bytes(8)
