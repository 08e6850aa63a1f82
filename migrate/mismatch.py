"""One difference between a new store and what the old one converts to."""

from __future__ import annotations

from typing import Literal

from migrate.keyrange import Stored, show_key

Kind = Literal["missing", "differing", "extra"]


class Mismatch(Stored):
    """One key that is not as it should be."""

    kind: Kind
    store_partition: str
    family: str
    key: bytes
    field: str
    """The first field that differs; the key itself where it is missing or extra."""
    expected: str
    actual: str

    def __str__(self) -> str:
        where = self.store_partition + (f", column family {self.family!r}" if self.family else "")
        if not self.key:
            return f"{where}: {self.field} should be {self.expected}, is {self.actual}"
        where += f", key {show_key(self.key)}"
        if self.kind == "missing":
            return f"missing in the new store: {where}"
        if self.kind == "extra":
            return f"extra in the new store: {where}"
        return f"differing: {where}: {self.field} should be {self.expected}, is {self.actual}"


def differing(partition: str, field: str, expected: str, actual: str, *, family: str = "") -> Mismatch:
    """A difference in something else than a key's value."""
    return Mismatch(
        kind="differing",
        store_partition=partition,
        family=family,
        key=b"",
        field=field,
        expected=expected,
        actual=actual,
    )
