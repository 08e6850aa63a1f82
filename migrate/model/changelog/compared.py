"""Changelogs that were read back, and compared with the new stores."""

from __future__ import annotations

from migrate.model.comparison import Kind
from migrate.model.key_range import show_key
from migrate.model.values import Stored


class RecordMismatch(Stored):
    """A key of a changelog whose last record is not the one that the new store's entry stands for."""

    kind: Kind
    topic: str
    number: int
    offset: int | None
    """That of the record; None: there is none."""
    key: bytes
    field: str
    """What differs."""
    expected: str
    actual: str

    def __str__(self) -> str:
        where = f"{self.topic}, partition {self.number}, key {show_key(self.key)}"
        where += "" if self.offset is None else f", offset {self.offset}"
        if self.kind == "differing":
            return f"differing: {where}: {self.field} should be {self.expected}, is {self.actual}"
        if self.kind == "extra":
            return f"extra in the changelog: {where}: the new store has no such entry"
        return f"missing in the changelog: {where}" + (": a tombstone" if self.field == "tombstone" else "")


class Reread(Stored):
    """A changelog that was read to its end, and compared with the new store."""

    store_partition: str
    end: int
    """The offset behind the last record that was read."""
    records: int
    """Keys whose last record is as it should be, those of tombstones included."""
    expired: int = 0
    """Records that the topic's retention has removed, and that the application's store has no use for any more."""
    outdated: int = 0
    """Records that are older than the topic's retention: the broker removes them, or has."""
    missing: int = 0
    differing: int = 0
    extra: int = 0
    first: tuple[RecordMismatch, ...] = ()
    """The first of each kind."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether a restore gives the new store."""
        return self.missing + self.differing + self.extra == 0
