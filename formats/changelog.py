"""What a changelog holds of the entries of a store, and what entries its records are restored to.

| part of a record | holds                                                                                       |
|------------------|---------------------------------------------------------------------------------------------|
| key              | the store's key: with the times of its window or session, without the segment of a version  |
| value            | the bare value, unless `Format.changelog_layout` says otherwise; null: the key is deleted   |
| timestamp        | the one that the store holds beside the value                                               |
| headers          | those that the store holds beside the value; none where it holds none                       |

Where a store holds no timestamp, its owner logs the timestamp of the input record that it is processing (also for each
session that it merges or removes). The entry does not tell that time, so it is the caller's: that of the key's last
record in the old changelog. It decides when a topic with a retention time deletes the record, and nothing else.

Source: org.apache.kafka.streams.state.internals.ChangeLogging*BytesStore, RecordConverters;
org.apache.kafka.streams.processor.internals.StateManagerUtil.converterForStore;
Streamiz.Kafka.Net.State.Logging, State.Internal.StateManagerTools.ConverterForStore.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from formats.encoding.headers import Headers
from formats.errors import InvalidEntryError
from formats.layout import HEADERS, PLAIN, TIMESTAMP, Carried, Field, Framing, RecordLayout, compile_fields
from formats.program import Operation

NO_HEADERS = Headers()
_TIMESTAMP_FIELD = Field(TIMESTAMP, 8)
_HEADERS_FIELD = Field(HEADERS, None, framing=Framing.SPAN)


@dataclass(frozen=True, slots=True)
class ChangelogRecord:
    """One record of a changelog."""

    key: bytes
    value: bytes | None
    """None: a tombstone."""
    timestamp_ms: int | None = None
    """None: the entry does not tell."""
    headers: Headers = NO_HEADERS


@dataclass(frozen=True, slots=True)
class FormPrograms:
    """A form as byte programs."""

    value: tuple[Operation, ...]
    """Writes the record's value from the entry's."""
    timestamp: tuple[Operation, ...] | None
    """Writes the record's timestamp, as eight bytes big-endian, from the entry's value; None: it tells none."""
    headers: tuple[Operation, ...] | None
    """Writes the record's headers, encoded and preceded by their size, from the entry's value; None: it has none."""
    entry: tuple[Operation, ...]
    """Writes the entry's value from the record's, which has `beside` before it."""
    beside: tuple[str, ...]
    """TIMESTAMP, HEADERS or both: put before the record's value one after the other, in the form written above."""


@dataclass(frozen=True)
class ChangelogForm:
    """How entries appear in a changelog, and what they are restored to.

    `records` and `entry` are the reference, and `programs` does the same. A format whose changelog has other keys than
    its store, or several records for an entry, has a form of its own, which overrides them.
    """

    key_schema: RecordLayout
    """The layout of a record's key."""
    value_layout: RecordLayout
    """The layout of a value in the store."""
    logged_layout: RecordLayout = PLAIN
    """The layout of a value in the changelog."""
    own_keys: tuple[bytes, ...] = ()
    """Prefixes of the owning system's own keys among the entries, of which the changelog has no record."""
    family_header: str | None = None
    """The header that names the column family of a record's entry; None: a topic serves one family."""
    constant_headers: tuple[tuple[str, bytes], ...] = ()
    """The headers of every record, tombstones too, of a store that holds none."""

    @property
    def is_in_order_of_time(self) -> bool:
        """Whether records must be written in the order of their timestamps, not of their keys."""
        return False

    @property
    def has_timestamp(self) -> bool:
        return TIMESTAMP in _names(self.value_layout)

    @property
    def has_headers(self) -> bool:
        return HEADERS in _names(self.value_layout)

    @property
    def programs(self) -> FormPrograms | None:
        """The compiled form, or None where only the reference serves."""
        stored, logged = self.value_layout.fields, self.logged_layout.fields
        value = compile_fields(stored, logged, {})
        entry = compile_fields((*self._beside, *logged), stored, {})
        if value is None or entry is None:
            return None
        timestamp = compile_fields(stored, (_TIMESTAMP_FIELD,), {}) if self.has_timestamp else None
        headers = compile_fields(stored, (_HEADERS_FIELD,), {}) if self.has_headers else None
        beside = tuple(field.name for field in reversed(self._beside))
        return FormPrograms(value, timestamp, headers, entry, beside)

    def is_own(self, key: bytes) -> bool:
        """Whether an entry is the owning system's own."""
        return key.startswith(self.own_keys)

    def reads_as(self, other: ChangelogForm) -> bool:
        """Whether a changelog of this form is one of the other, too."""
        mine, theirs = (
            (each.key_schema, each.logged_layout, each.family_header, each.constant_headers) for each in (self, other)
        )
        return mine == theirs

    def place_of(self, headers: Iterable[tuple[str, bytes | None]]) -> str:
        """The column family of a record's entry. Raises InvalidEntryError where its headers do not tell."""
        family = dict(headers).get(self.family_header or "")
        if family is None:
            raise InvalidEntryError(f"no header {self.family_header} names its column family")
        return family.decode("utf-8", "replace")

    def records(self, key: bytes, value: bytes) -> tuple[ChangelogRecord, ...]:
        """The records that stand for an entry, the latest one last. Raises EntryError."""
        if self.is_own(key):
            return ()
        payload, carried = self.value_layout.unpack(value)
        logged = self.logged_layout.pack(payload, carried)
        headers = carried.get(HEADERS, Headers.of(self.constant_headers))
        return (ChangelogRecord(key, logged, carried.get(TIMESTAMP), headers),)

    def entry(self, record: ChangelogRecord) -> tuple[bytes, bytes | None]:
        """(key, value) as the owner restores them from a record; None: the key is deleted. Raises EntryError."""
        if record.value is None:
            return record.key, None
        payload, carried = self.logged_layout.unpack(record.value)
        beside: Carried = {TIMESTAMP: record.timestamp_ms, HEADERS: record.headers}
        return record.key, self.value_layout.pack(payload, {**beside, **carried})

    @property
    def _beside(self) -> tuple[Field, ...]:
        """The fields of the store's value that stand in a record beside its value."""
        wanted = _names(self.value_layout) - _names(self.logged_layout)
        return tuple(field for field in (_HEADERS_FIELD, _TIMESTAMP_FIELD) if field.name in wanted)


def _names(layout: RecordLayout) -> set[str]:
    return {field.name for field in layout.fields}
