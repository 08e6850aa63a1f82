"""A store partition as queries see it: its stored entries at one time, and whether that time has passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from formats import Format
from migrate.stores.records import BatchSource


class Entries(Protocol):
    """The entries of one RocksDB directory, or of an old and a new one read as one, as their format stores them.

    Safe to share between threads. Raises CorruptionError where the files are damaged.
    """

    def get(self, key: bytes) -> bytes | None:
        """The stored value of a stored key, or None."""
        ...

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        """The entries in [start, end), None: unbounded, in the order of keys or the reverse."""
        ...

    @property
    def estimated_records(self) -> int:
        """An estimate of the number of entries."""
        ...


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """One RocksDB directory of a store partition."""

    start_ms: int | None
    """The segment's start, in ms since the epoch; None: the store has no segments."""
    entries: Entries


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Opened:
    """A store partition, opened: what it held at one time. The files stay open as long as this object lives."""

    format: Format
    """With the serdes of keys and values."""
    segments: tuple[OpenSegment, ...]
    """The oldest first; one without a start where the store has no segments."""
    position: dict[tuple[str, int], int]
    """By (topic, partition), the offset of the last input record that the store reflects; empty: not known."""
    tag: str
    """Differs between two openings that may hold different entries."""
    as_of_ms: int | None = None
    """The time of the newest file, where a running owner may have written since; None: the store is at rest."""
    written_ms: int | None = None
    """The time of the newest file in any case; None: there is none, or the owner is this process."""


class Partition(Protocol):
    """One store partition on this host, by whatever files it has at present. Safe to share between threads."""

    @property
    def id(self) -> str:
        """`<task>/<store>`, or the name of a RocksDB directory by itself."""
        ...

    @property
    def number(self) -> int | None:
        """The partition's number; None: a RocksDB directory by itself does not tell it."""
        ...

    def opened(self) -> Opened:
        """The store partition as it is now; cheap enough to ask before each read.

        Raises StateStoreMigratedError once the store was replaced by another one, StoreNotReadyError while it is being
        moved, StoreClosedError once it was closed.
        """
        ...

    def recent(self) -> Opened:
        """The same without a look at whether it was replaced: what is read from it is an answer only after `check`."""
        ...

    def check(self) -> None:
        """Raise the errors of `opened` where the store was replaced since: asked after a read, before its answer."""
        ...
