"""One difference between a new store and what the old one converts to."""

from __future__ import annotations

from typing import Literal

from migrate.keyrange import Stored, show_key


class Mismatch(Stored):
    """One key that is not as it should be."""

    kind: Literal["missing", "differing", "extra"]
    store_partition: str
    family: str
    key: bytes
    field: str
    """The first field that differs; the key itself where it is missing or extra."""
    expected: str
    actual: str

    def __str__(self) -> str:
        where = f"{self.store_partition}, column family {self.family!r}, key {show_key(self.key)}"
        if not self.key:
            where = f"{self.store_partition}, column family {self.family!r}"
            return f"{where}: {self.field} should be {self.expected}, is {self.actual}"
        if self.kind == "missing":
            return f"missing in the new store: {where}"
        if self.kind == "extra":
            return f"extra in the new store: {where}"
        return f"differing: {where}: {self.field} should be {self.expected}, is {self.actual}"
