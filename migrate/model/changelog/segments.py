"""The segments of a new store, as tails make and drop them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from migrate.model.store_partition import segment_name


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a new store partition before a tail, and the rules by which its owner makes and drops them."""

    store: str
    size_ms: int
    retention_ms: int
    newest_ms: int | None
    """The newest time of a key so far; None: there is no key."""
    starts: dict[str, int]
    """By the RocksDB directory's name."""

    def reaching(self, newest_ms: int | None) -> Segments:
        """The segments that are left once the newest time of a key is this one."""
        newest = max((each for each in (self.newest_ms, newest_ms) if each is not None), default=None)
        oldest = _oldest(newest, self.retention_ms, self.size_ms)
        left = {name: start for name, start in self.starts.items() if start >= oldest}
        return replace(self, newest_ms=newest, starts=left)

    def of(self, time_ms: int) -> str | None:
        """The segment of a key; None: it has expired."""
        start = time_ms // self.size_ms * self.size_ms
        if start < _oldest(self.newest_ms, self.retention_ms, self.size_ms):
            return None
        return segment_name(self.store, start)


def _oldest(newest_ms: int | None, retention_ms: int, size_ms: int) -> int:
    """The start of the oldest segment that its owner keeps."""
    return 0 if newest_ms is None else max(newest_ms - retention_ms, 0) // size_ms * size_ms
