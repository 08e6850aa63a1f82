"""Conversions between any two formats, through the hub record; and their compiled form, where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from formats.encoding.headers import Headers
from formats.errors import EntryError, InvalidEntryError, UnresolvableSchemasError
from formats.format import Format
from formats.function import Function, apply_function
from formats.layout import (
    EXPIRY,
    HEADERS,
    HISTORY,
    TIMESTAMP,
    UNKNOWN_TIME,
    Carried,
    Field,
    RecordLayout,
    compile_fields,
)
from formats.program import IDENTITY, Avro, ByteProgram, Choose, Copy, Insert, Operation, Reverse
from formats.record import StateRecord
from formats.serde import BytesSerde, Serde, uses_headers
from formats.serdes.avro_frame import pack_frame
from formats.serdes.numeric import NumberSerde

if TYPE_CHECKING:
    from formats.serdes.avro_serde import AvroSerde

CONVERSION_REVISION = 1
"""Increased when the same two formats would convert to other bytes than before; part of a migration's identity."""

TIME_BEFORE = Field(TIMESTAMP, 8)
"""A record's time as a timed program takes it: before the value, signed 64-bit big-endian milliseconds."""

BELONGS_ELSEWHERE = "the new key belongs to partition "
"""The beginning of the reason why a record is rejected whose new key belongs to another store partition."""

_HOLDS = {
    "key-value": "one value for each key",
    "window": "one value for each key and window",
    "session": "one value for each key and session",
    "versioned": "the history of each key",
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """The reference path: decode, convert, encode. Obvious, slow, always there."""

    source: Format
    target: Format
    default_timestamp_ms: int = UNKNOWN_TIME
    """Written where the target carries a timestamp and the source has none."""
    function: Function | None = None
    keys_may_change: bool = False
    may_lose: frozenset[str] = frozenset()
    """What the function may give a record although the target has no room for it, by names for the spec's `allow`."""
    elsewhere: Callable[[bytes], int | None] | None = None
    """Tells the partition of a changed key, as its serde wrote it, that belongs to another one; None: nobody can."""
    _lost: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lost = {TIMESTAMP, HEADERS} - self.target.carries
        object.__setattr__(self, "_lost", frozenset(name for name in lost if f"loss:{name}" not in self.may_lose))

    @property
    def program(self) -> ByteProgram | None:
        """The compiled path, or None where only the reference path serves."""
        if self.function is not None:
            return None
        return _compiled(self.source, self.target, self.default_timestamp_ms)

    @property
    def takes_times(self) -> bool:
        """Whether the target carries a timestamp and the source has none."""
        return TIMESTAMP in self.target.carries and TIMESTAMP not in self.source.carries

    @property
    def timed_program(self) -> ByteProgram | None:
        """As `program`, for values with their record's time before them (TIME_BEFORE); only if it `takes_times`."""
        if self.function is not None:
            return None
        return _compiled(self.source, self.target, is_timed=True)

    @property
    def position_keys(self) -> tuple[bytes, ...]:
        """Keys that hold changelog offsets in the old store or in the new one: no conversion carries them over."""
        return tuple(sorted({*self.source.position_keys, *self.target.position_keys}))

    @property
    def losses(self) -> tuple[str, ...]:
        """What the source carries and the target cannot hold, as names for the spec's `allow`."""
        fields = {"fields"} if self.lost_fields else set()
        return tuple(f"loss:{name}" for name in sorted(self.source.carries - self.target.carries | fields))

    @property
    def lost_fields(self) -> tuple[str, ...]:
        """What payloads may hold and their new schemas leave out, in words; a function sees all of it."""
        serdes = (self.source.key_serde, self.source.value_serde)
        return tuple(text for serde in serdes for text in getattr(serde, "losses", ()))

    def lost_in(self, key: bytes, value: bytes) -> frozenset[str]:
        """Those of `lost_fields` that a record holds. Raises EntryError."""
        if key.startswith(self.source.metadata_keys):
            return frozenset()
        record = self.source.decode(key, value)
        former = () if record.history is None else (version.value for version in record.history.versions)
        found = (payload.lost() for payload in (record.key, record.value, *former) if hasattr(payload, "lost"))
        return frozenset[str]().union(*found)

    @property
    def changes_changelog(self) -> bool:
        """Whether a changelog written for the source would rebuild another store than the converted one."""
        if not self.target.has_changelog:
            return False
        is_alike = self.source.changelog_form.reads_as(self.target.changelog_form)
        return self.function is not None or not self.source.has_changelog or self.changes_payloads or not is_alike

    @property
    def changes_payloads(self) -> bool:
        """Whether keys or values are written by another serde than before; without that, or a function, they stay."""
        return (self.source.key_serde, self.source.value_serde) != (self.target.key_serde, self.target.value_serde)

    def convert(self, key: bytes, value: bytes, time_ms: int | None = None) -> tuple[bytes, bytes] | None:
        """The target's (key, value), or None where there is none. Raises EntryError: a reject.

        `time_ms`: the record's time, which the function sees, and which is written instead of the default.
        """
        return self.convert_counting(key, value, time_ms)[0]

    def convert_counting(
        self, key: bytes, value: bytes, time_ms: int | None = None
    ) -> tuple[tuple[bytes, bytes] | None, int]:
        """As `convert`, with the number of values that the function drops: the record's, or former ones of its key.

        None without any: the formats leave the entry out.
        """
        if key.startswith(self.source.metadata_keys):
            is_carried = key.startswith(self.target.metadata_keys) and key not in self.position_keys
            return ((key, value) if is_carried else None), 0
        found = self.source.decode(key, value)
        if found.history is not None and HISTORY not in self.target.carries:
            return None, 0
        if found.timestamp_ms is None and time_ms is not None:
            found = replace(found, timestamp_ms=time_ms)
        record, dropped = (found, 0) if self.function is None else apply_function(self.function, found, self._lost)
        if record is None:
            return None, dropped
        if record.timestamp_ms is None:
            record = replace(record, timestamp_ms=self.default_timestamp_ms)
        self._check_times(found, record)
        converted = self.target.encode(record)
        self._check_expiry(found, record, has_key=converted[0] == key)
        if self.function is not None and not self._keeps_key(found, record):
            raise InvalidEntryError(
                "the function changed the key, which decides the task that owns the record: if that is meant, "
                '[conversion] allow = ["key-change"] says so; the new key must belong to the same task, unless '
                "[target] partitions places records by it"
            )
        self._check_partition(key, converted[0])
        return converted, dropped

    def _check_times(self, old: StateRecord, new: StateRecord) -> None:
        if self.target.is_segmented and new.window != old.window:
            raise InvalidEntryError("the function changed the window, which tells the segment that the record lies in")
        is_newest = self.source.kind == self.target.kind == "versioned" and old.history is None
        if is_newest and new.timestamp_ms != old.timestamp_ms:
            raise InvalidEntryError("the function changed since when the newest value holds, which ends its history")

    def _check_expiry(self, old: StateRecord, new: StateRecord, *, has_key: bool) -> None:
        """Its owner finds what expires by an index of times and keys, which is carried as it is."""
        if EXPIRY in self.target.carries and not (has_key and old.expires_ms == new.expires_ms):
            what = "when the value expires" if has_key else "the key of a value that may expire"
            raise InvalidEntryError(f"the conversion changed {what}: dataclasses.replace(record, value=...) keeps both")

    def _check_partition(self, old: bytes, new: bytes) -> None:
        if (partition := self.partition_left_for(old, new)) is not None:
            raise InvalidEntryError(f"{BELONGS_ELSEWHERE}{partition}: nobody would look for it in this one")

    @property
    def may_move_keys(self) -> bool:
        """Whether a changed key may belong to another task."""
        may_change = self.function is not None or self.source.key_serde != self.target.key_serde
        return may_change and self.keys_may_change and self.target.keeps_keys_in_tasks

    def partition_left_for(self, old: bytes, new: bytes) -> int | None:
        """The partition that an entry's new key belongs to; None: that of the old one, as far as anybody can tell."""
        if self.elsewhere is None:
            return None
        payload = self.target.key_payload(new)
        return None if payload == self.source.key_payload(old) else self.elsewhere(payload)

    def convert_key(self, key: bytes) -> bytes:
        """The target's key of an entry, whatever its value; a function that changes keys is not asked.

        Raises EntryError.
        """
        source, target = self.source, self.target
        if (source.key_schema, source.key_serde) == (target.key_schema, target.key_serde):
            return key
        return self.target.encode_key(self.source.decode_key(key))

    def _keeps_key(self, old: StateRecord, new: StateRecord) -> bool:
        """Whether the function keeps the key, or may change it. What a format or serde makes of it does not count."""
        if self.keys_may_change or not self.target.keeps_keys_in_tasks:
            return True
        if new.key is old.key:
            return True
        try:
            return self.target.key_serde.encode(new.key) == self.target.key_serde.encode(old.key)
        except EntryError:
            return False  # only the function's own key can be written at all


def conversion_problem(source: Format, target: Format) -> str | None:
    """Why a store of `source` cannot become one of `target`; None: it can."""
    with_expiry = [known.id for known in (source, target) if EXPIRY in known.carries]
    if len(with_expiry) == 1:
        return f"{with_expiry[0]} holds when values expire, which only the application switches on or off"
    if source.kind == target.kind or {source.kind, target.kind} == {"key-value", "versioned"}:
        return None
    return (
        f"{source.id} holds {_HOLDS[source.kind]}, {target.id} holds {_HOLDS[target.kind]}: there is no rule to turn "
        "one into the other"
    )


def compile_conversion(
    source: Format, target: Format, *, default_timestamp_ms: int = -1, is_timed: bool = False
) -> ByteProgram | None:
    """The byte program that does what the reference path does, or None where there is none.

    `is_timed`: it takes values with TIME_BEFORE.
    """
    if source.kind != target.kind or source.kind == "versioned" or _changes_headers(source, target):
        return None
    key_payload = compile_serdes(source.key_serde, target.key_serde)
    value_payload = compile_serdes(source.value_serde, target.value_serde)
    if key_payload is None or value_payload is None:
        return None
    defaults: Carried = {TIMESTAMP: default_timestamp_ms, HEADERS: Headers()}
    key = compile_fields(source.key_schema.fields, target.key_schema.fields, {}, key_payload)
    before = (TIME_BEFORE,) if is_timed else ()
    value = compile_fields((*before, *source.value_layout.fields), target.value_layout.fields, defaults, value_payload)
    return None if key is None or value is None else ByteProgram(key, value)


@lru_cache(maxsize=16)
def _compiled(
    source: Format, target: Format, default_timestamp_ms: int = -1, *, is_timed: bool = False
) -> ByteProgram | None:
    """The program, cached: every chunk needs it, and schemas of hundreds of fields take seconds to compile."""
    return compile_conversion(source, target, default_timestamp_ms=default_timestamp_ms, is_timed=is_timed)


def _changes_headers(source: Format, target: Format) -> bool:
    """Whether a serde changes headers, which programs copy as they are."""
    serdes = (source.key_serde, source.value_serde, target.key_serde, target.value_serde)
    carries = HEADERS in source.carries and HEADERS in target.carries
    return carries and any(map(uses_headers, serdes))


def upgrade_program(older: RecordLayout, source: Format) -> tuple[Operation, ...]:
    """The operations that turn a value of a pre-upgrade family into one of `source`, as its owner does.

    They take any bytes: a malformed value stays malformed, and the conversion rejects it.
    """
    unknown: Carried = {TIMESTAMP: UNKNOWN_TIME, HEADERS: Headers()}
    program = compile_fields(older.fields, source.value_layout.fields, unknown)
    before = [] if program is None else [operation for operation in program if isinstance(operation, Insert)]
    is_prefix = program is not None and all(isinstance(operation, Copy) for operation in program[len(before) :])
    assert is_prefix, "an owner's own upgrade only puts something before a value"
    return (*before, *IDENTITY)


def compile_serdes(source: Serde, target: Serde) -> tuple[Operation, ...] | None:
    """The operations for a payload; None where only the reference path serves.

    The operations must reject what the reference path rejects, so text, UUIDs and JSON, which it checks, have none.
    """
    if isinstance(source, BytesSerde) and isinstance(target, BytesSerde):
        return IDENTITY
    if isinstance(source, NumberSerde) and isinstance(target, NumberSerde):
        if source.name != target.name or source.name == "float":  # a signalling NaN is rejected
            return None
        return (Copy(source.size),) if source.endian == target.endian else (Reverse(source.size),)
    if source.name == target.name == "avro":
        from formats.serdes.avro_serde import AvroSerde  # loads Avro, which few conversions need

        assert isinstance(source, AvroSerde)
        assert isinstance(target, AvroSerde)
        return _compile_avro(source, target)
    return None


def _compile_avro(source: AvroSerde, target: AvroSerde) -> tuple[Operation, ...] | None:
    """An Avro program for each schema that may have written a payload; None where one of them cannot be read.

    A payload's operations do not see headers: where a header names the schema, only the reference path serves.
    """
    from formats.avro.compiling import compile_schemas

    if "header" in (source.frame, target.frame):
        return None
    schema_id, reader = target.written
    inserted = pack_frame(target.frame, schema_id)
    head = (Insert(inserted),) if inserted else ()
    cases: list[tuple[bytes, tuple[Operation, ...]]] = []
    for written_id, writer in source.schemas:
        try:
            program = compile_schemas(writer, reader)
        except UnresolvableSchemasError:
            return None
        cases.append((pack_frame(source.frame, written_id), (*head, Avro(program))))
    return cases[0][1] if source.frame == "none" else (Choose(tuple(cases)),)
