"""What a store is to show: a dict, and errors where old records cannot be converted."""

from __future__ import annotations

from migrate import ConversionError
from migrate.stores.state_store import Records
from tests.dual.pairings import BAD, Bad
from tests.support import raises


class Model:
    """The records, by new key."""

    def __init__(self, seen: dict[bytes, bytes | Bad]) -> None:
        self.seen = seen

    @property
    def bad(self) -> list[bytes]:
        """Keys whose old record cannot be converted; no pairing that changes keys has any."""
        return sorted(key for key, value in self.seen.items() if value is BAD)

    @property
    def first_bad(self) -> bytes | None:
        return min(self.bad, default=None)

    def change(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        """One after the other."""
        for key, value in changes:
            if value is None:
                self.seen.pop(key, None)
            else:
                self.seen[key] = value

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False, prefix: bytes = b"") -> Scan:
        """The records of now in [start, end) that begin with `prefix`."""
        return Scan(
            [
                (key, self.seen[key])
                for key in sorted(self.seen, reverse=reverse)
                if (start is None or key >= start) and (end is None or key < end) and key.startswith(prefix)
            ]
        )


class Scan:
    """What one iterator is to give."""

    def __init__(self, left: list[tuple[bytes, bytes | Bad]]) -> None:
        self._left = left

    def take_one(self, records: Records) -> bool:
        """Whether more may follow; after the last one, and after an error, none may."""
        if not self._left:
            assert next(records, None) is None
            return False
        key, value = self._left.pop(0)
        if isinstance(value, Bad):
            caught = raises(ConversionError, "", next, records)
            assert caught.key == key
            return False
        assert next(records) == (key, value)
        return True
