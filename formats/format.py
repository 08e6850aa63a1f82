"""`Format`: what the bytes of one store mean."""

from __future__ import annotations

from dataclasses import dataclass

from formats.layout import PAYLOAD, PLAIN, Layout
from formats.record import StateRecord
from formats.serde import BYTES, Serde


@dataclass(frozen=True, slots=True)
class Format:
    """A key schema, a value layout and the payload serdes, and where in a RocksDB directory they live."""

    id: str
    """`<system>.<layout>`; never renamed: specs and ledgers name it."""
    summary: str
    column_families: tuple[str, ...] | None
    """The families that hold records; None: any family the store has."""
    key_schema: Layout = PLAIN
    value_layout: Layout = PLAIN
    key_serde: Serde = BYTES
    value_serde: Serde = BYTES
    metadata_families: tuple[str, ...] = ()
    """The owning system's own families: carried as they are, never converted (I7)."""
    has_changelog: bool = False
    """The owning system can rebuild the store from a changelog, which holds the bare payloads."""
    keeps_keys_in_tasks: bool = False
    """A key's hash decides its task: a changed key may belong to another one."""

    @property
    def system(self) -> str:
        """The owning system's name: the part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def carries(self) -> frozenset[str]:
        """What a record holds besides its payloads; a target that lacks one of them loses it."""
        fields = (*self.key_schema.fields, *self.value_layout.fields)
        return frozenset(field.name for field in fields) - {PAYLOAD}

    def decode(self, key: bytes, value: bytes) -> StateRecord:
        """Raises EntryError where the bytes are not this format's."""
        key_payload, _ = self.key_schema.unpack(key)
        payload, carried = self.value_layout.unpack(value)
        return StateRecord(
            key=self.key_serde.decode(key_payload),
            value=self.value_serde.decode(payload),
            timestamp_ms=carried.get("timestamp"),
        )

    def encode(self, record: StateRecord) -> tuple[bytes, bytes]:
        """(key, value) as they lie in the store. Raises EntryError where the record cannot be written."""
        carried = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        return (
            self.key_schema.pack(self.key_serde.encode(record.key), {}),
            self.value_layout.pack(self.value_serde.encode(record.value), carried),
        )
