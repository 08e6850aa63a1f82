"""`Format`: what the bytes of one store mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from formats.changelog import ChangelogForm
from formats.encoding.headers import Headers
from formats.errors import EntryError, InvalidEntryError
from formats.layout import (
    EXPIRY,
    HEADERS,
    PAYLOAD,
    PLAIN,
    SEQUENCE,
    TIMESTAMP,
    VALUE_SIZE,
    WINDOW_END,
    WINDOW_START,
    Carried,
    RecordLayout,
)
from formats.record import StateRecord, Window
from formats.serde import BYTES, Serde, uses_headers
from formats.serdes.avro_frame import is_for_a_function, shown_frame
from formats.wide_columns import NOT_A_PAIR, WideColumns, wide_columns

Kind = Literal["key-value", "window", "session", "versioned"]


@dataclass(frozen=True, slots=True)
class OlderFamily:
    """A pre-upgrade family: it holds records until the owner's upgrade has moved them."""

    name: str
    value_layout: RecordLayout


@dataclass(frozen=True, slots=True)
class OwnerVersions:
    """The known versions of an owning system, and which of its column families need a newer one."""

    name: str
    oldest: str
    newest: str
    """The newest known version. The real system opened migrated stores in both, and in versions between them."""
    example: str
    """A version as a spec could name it."""
    families: tuple[tuple[str, str], ...] = ()
    """(the system's column family, the first version that can open a store with it)."""


@dataclass(frozen=True)
class Format:
    """A key schema, a value layout and the payload serdes, and where in a RocksDB directory they live."""

    id: str
    """`<system>.<layout>`; never renamed: specs and ledgers name it."""
    summary: str
    column_families: tuple[str, ...] | None
    """The families that hold records; None: any family the store has."""
    kind: Kind = "key-value"
    """The kind of store: a key stands for the same thing in all formats of a kind."""
    key_schema: RecordLayout = PLAIN
    value_layout: RecordLayout = PLAIN
    key_serde: Serde = BYTES
    value_serde: Serde = BYTES
    metadata_families: tuple[str, ...] = ()
    """The owning system's own families: carried as they are, never converted (I7)."""
    metadata_keys: tuple[bytes, ...] = ()
    """Prefixes of the owning system's own keys among the records: carried as they are, too."""
    position_keys: tuple[bytes, ...] = ()
    """The owning system's keys that hold changelog offsets, in its families or among the records, where they begin with
    one of `metadata_keys`: not carried over, since its `System` writes those of the new store."""
    older_families: tuple[OlderFamily, ...] = ()
    """Pre-upgrade families of a store in upgrade mode: read where the new family has no entry."""
    has_changelog: bool = False
    """Whether the owning system can rebuild the store from a changelog."""
    changelog_layout: RecordLayout = PLAIN
    """The layout of a value in the changelog: the bare payload unless the owning system adds to it."""
    family_header: str | None = None
    """The header that names the column family of a changelog's record, where its topic serves several."""
    constant_headers: tuple[tuple[str, bytes], ...] = ()
    """The headers of every record of the changelog, of a store that holds none."""
    keeps_keys_in_tasks: bool = False
    """Whether a key's hash determines its task, so that a changed key may belong to another one."""
    since: str | None = None
    """The first version of the owning system that has this format; None: all versions in use."""
    versions: OwnerVersions | None = None
    """The known versions of the owning system; None: versions do not matter."""

    @property
    def system(self) -> str:
        """The owning system's name: the part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def changelog_form(self) -> ChangelogForm:
        return ChangelogForm(
            self.key_schema,
            self.value_layout,
            self.changelog_layout,
            own_keys=self.metadata_keys,
            family_header=self.family_header,
            constant_headers=self.constant_headers,
        )

    @property
    def on_columns(self) -> Callable[[bytes, Sequence[tuple[bytes, bytes]]], bytes] | None:
        """What stands for the value of a wide-column record, by its key and columns; None: no known system has any."""
        return wide_columns if self.column_families is None else None

    def has_columns(self, values: Iterable[bytes]) -> bool:
        """Whether one of the values stands for the columns of a wide-column record."""
        return self.on_columns is not None and WideColumns in set(map(type, values))

    @property
    def is_segmented(self) -> bool:
        """Whether each store partition is a directory of RocksDB directories, by time."""
        return self.kind in ("window", "session")

    @property
    def segment_time(self) -> slice:
        """The 8 bytes of a key whose time determines its segment, counted from the end, since keys vary in size."""
        behind = 0
        for field in reversed(self.key_schema.fields):
            behind += field.size or 0
            if field.name == (WINDOW_END if self.kind == "session" else WINDOW_START):
                assert field.size is not None
                return slice(-behind, field.size - behind or None)
        raise AssertionError(f"the keys of {self.id} hold no time")

    @property
    def carries(self) -> frozenset[str]:
        """The names of what a record holds besides its payloads; a target without one of them loses it."""
        fields = (*self.key_schema.fields, *self.value_layout.fields)
        return frozenset(field.name for field in fields) - {PAYLOAD, VALUE_SIZE}

    def warnings_from(self, source: Format) -> list[str]:
        """Warnings about a new store of this format, made of one of `source`."""
        return []

    def checked_version(self, version: str) -> OwnerVersions:
        """The known versions, if `[target] version` may name this one. Raises ValueError if not."""
        known = self.versions
        if known is None:
            raise ValueError(
                f"[target] version: {self.id} has no owning system whose version could matter: leave it out"
            )
        if not in_order(known.oldest) <= in_order(version)[:2] <= in_order(known.newest):
            raise ValueError(
                f"[target] version: {known.name} {version} is not known, {known.oldest} to {known.newest} are; for "
                "another one leave `version` out, and let it open a copy of the new store first"
            )
        return known

    def decode(self, key: bytes, value: bytes) -> StateRecord:
        """The record of an entry. Raises EntryError where the bytes are not of this format."""
        if type(value) is WideColumns:
            raise InvalidEntryError(NOT_A_PAIR)
        key_payload, place = self.key_schema.unpack(key)
        payload, carried = self.value_layout.unpack(value)
        headers = carried.get(HEADERS)
        return StateRecord(
            key=_decoded("key", self.key_serde, key_payload, headers),
            value=_decoded("value", self.value_serde, payload, headers),
            timestamp_ms=carried.get(TIMESTAMP),
            headers=headers,
            window=_window(place),
            expires_ms=carried.get(EXPIRY),
        )

    def decode_key(self, key: bytes) -> StateRecord:
        """What an entry's key alone tells of its record. Raises EntryError."""
        payload, place = self.key_schema.unpack(key)
        return StateRecord(key=_decoded("key", self.key_serde, payload, None), value=None, window=_window(place))

    def key_payload(self, key: bytes) -> bytes:
        """The user's key in a stored one, as its serde wrote it. Raises EntryError."""
        return self.key_schema.unpack(key)[0]

    def encode_key(self, record: StateRecord) -> bytes:
        """The key as the store holds it. Raises EntryError where it cannot be written."""
        return self.key_schema.pack(self.key_serde.encode(record.key), self._place(record))

    def encode(self, record: StateRecord) -> tuple[bytes, bytes]:
        """(key, value) as the store holds them. Raises EntryError where the record cannot be written."""
        headers = self._headers(record.headers)
        carried = {TIMESTAMP: record.timestamp_ms, HEADERS: headers, EXPIRY: record.expires_ms}
        return (
            self.encode_key(record),
            self.value_layout.pack(
                self.value_serde.encode(record.value),
                {name: value for name, value in carried.items() if value is not None},
            ),
        )

    def _headers(self, headers: Headers | None) -> Headers | None:
        if HEADERS not in self.carries:
            return None
        for serde in (self.key_serde, self.value_serde):
            if uses_headers(serde):
                headers = serde.with_headers(headers)
        return headers

    def _place(self, record: StateRecord) -> Carried:
        if not self.is_segmented:
            return {}
        window = record.window
        if window is None or (self.kind == "session" and window.end_ms is None):
            raise InvalidEntryError(f"a record of {self.id} needs its {self.kind}")
        return {WINDOW_START: window.start_ms, WINDOW_END: window.end_ms, SEQUENCE: window.sequence}


def in_order(version: str) -> tuple[int, ...]:
    """The numbers of a version, to compare versions by."""
    return tuple(int(part) for part in version.split("."))


def _decoded(part: str, serde: Serde, payload: bytes, headers: Headers | None) -> Any:  # noqa: ANN401 - the serde's
    try:
        return serde.decode_with(payload, headers) if uses_headers(serde) else serde.decode(payload)
    except EntryError as error:
        error.part = part
        error.is_for_a_function = serde.name in ("avro", "json") and is_for_a_function(payload)
        if serde.name == "json" and (shown := shown_frame(payload)):
            error.args = (f"{error}; the bytes look like {shown}",)
        raise


def _window(place: Carried) -> Window | None:
    if WINDOW_START not in place:
        return None
    return Window(place[WINDOW_START], place.get(WINDOW_END), place.get(SEQUENCE, 0))
