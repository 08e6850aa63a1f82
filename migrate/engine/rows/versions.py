"""The entries of a versioned store as one entry a version, each in the layout of a latest value."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from formats import EntryError
from formats.format import Format
from formats.kafka_streams.values import pack_timestamp
from formats.kafka_streams.versioned import LATEST, key_in
from migrate.stores.batch import Batch

_LATEST = key_in(LATEST, b"")


@dataclass(slots=True)
class Versions:
    """Versions of a batch of entries: those of one entry together, the oldest first."""

    keys: list[bytes] = field(default_factory=list)
    """In the form of a latest value's."""
    values: list[bytes] = field(default_factory=list)
    """In the form of a latest value; without a payload where the key was deleted."""
    stored_keys: list[bytes] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    """When each version ended, in milliseconds; None: it still holds."""
    deleted: list[int] = field(default_factory=list)
    """The rows of versions in which the key was deleted."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why there is one row alone of an entry, by row."""

    def add(self, stored: Format, key: bytes, value: bytes) -> None:
        """The versions of an entry of former values; `stored`: the format, whose serdes are those of bytes."""
        end, found = None, []
        try:
            history = stored.decode(key, value).history
            assert history is not None
            end, found = history.valid_to_ms, [*history.versions]
        except EntryError as error:
            self.reasons[len(self.keys)] = str(error)
            self._add(key, b"", key, None)
        rows = []
        for version in found:
            payload = version.value
            rows.append((pack_timestamp(version.valid_from_ms) + (payload or b""), end, payload is None))
            end = version.valid_from_ms
        for entry, until, is_deleted in reversed(rows):
            self.deleted += [len(self.keys)] if is_deleted else []
            self._add(_LATEST + key[len(_LATEST) :], entry, key, until)

    def _add(self, key: bytes, value: bytes, stored_key: bytes, end: int | None) -> None:
        self.keys.append(key)
        self.values.append(value)
        self.stored_keys.append(stored_key)
        self.ends.append(end)


def versions_of(stored: Format, batch: Batch) -> tuple[Batch, Versions]:
    """(a batch of the versions, what else is known of them). Latest values are the last entries of a store."""
    first = bisect_left(batch.keys, _LATEST)
    versions = Versions()
    if first == 0:
        versions.stored_keys, versions.ends = batch.keys, [None] * len(batch)
        return batch, versions
    for key, value in zip(batch.keys[:first], batch.values[:first], strict=True):
        versions.add(stored, key, value)
    for key, value in zip(batch.keys[first:], batch.values[first:], strict=True):
        versions._add(key, value, key, None)
    return Batch(versions.keys, versions.values), versions
