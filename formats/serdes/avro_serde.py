"""`avro`: Avro binary, with or without a frame that names the schema (formats/serdes/avro_frame.py).

Objects are dicts, lists, text, bytes and numbers; a logical type is what lies beneath it (a date is a number of days).
One store may hold payloads of several schemas, distinguished by their ids. A payload that is read and written again may
have other bytes with the same meaning: arrays and maps are written in one block each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from formats.avro.resolving import findings, losses_in, read, resolve, write
from formats.avro.schema import AvroSchema
from formats.encoding.headers import Headers
from formats.errors import EntryError, InvalidEntryError, UnresolvableSchemasError
from formats.serdes.avro_frame import Frame, Part, SchemaId, framed_headers, pack_frame, shown_frame, unframe

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A value that is already written with this schema: without a function it need not become an object."""

    schema: AvroSchema
    data: bytes
    writer: AvroSchema
    source: bytes

    def lost(self) -> frozenset[str]:
        """What the old value holds and this one does not."""
        return losses_in(self.source, self.writer, self.schema)


@dataclass(frozen=True)
class AvroSerde:
    """Avro payloads: the schemas that may have written one; the only one, if there is one, writes."""

    schemas: tuple[tuple[SchemaId, AvroSchema], ...]
    frame: Frame
    part: Part = "value"
    """The part of the record, and so which of the two schema id headers counts."""
    reader: AvroSchema | None = None
    """The schema that payloads are resolved to; None: they become objects of the schema that wrote them."""
    name: str = "avro"

    @cached_property
    def _by_id(self) -> dict[SchemaId, AvroSchema]:
        return dict(self.schemas)

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401
        return self.decode_with(payload, None)

    def decode_with(self, payload: bytes, headers: Headers | None) -> Any:  # noqa: ANN401
        """The object of a payload. Raises EntryError for an unknown id, a damaged frame, or invalid bytes."""
        try:
            schema_id, data = unframe(self.frame, self.part, payload, headers)
            schema = self._by_id.get(schema_id)
            if schema is None:
                raise InvalidEntryError(self._unknown(schema_id))
        except EntryError as error:
            error.args = (f"{error}; {self._frames(payload)}",)
            raise
        try:
            return self.read_value(schema_id, schema, data)
        except EntryError as error:
            if self.frame == "none" and shown_frame(payload):
                error.args = (f"{error}; {self._frames(payload)}",)
            raise

    def read_value(self, schema_id: SchemaId, schema: AvroSchema, data: bytes) -> Any:  # noqa: ANN401
        """The object of a value without its frame, written by this schema. Raises EntryError."""
        if self.reader is None:
            return read(data, schema, schema)
        try:
            return ResolvedSchema(self.reader, resolve(data, schema, self.reader), schema, data)
        except UnresolvableSchemasError as error:
            raise InvalidEntryError(f"schema {schema_id} cannot be read as the new one: {error}") from error

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        schema_id, schema = self.written
        is_written = isinstance(payload, ResolvedSchema) and payload.schema == schema
        data = payload.data if is_written else write(payload, schema)
        return pack_frame(self.frame, schema_id) + data

    def with_headers(self, headers: Headers | None) -> Headers:
        return framed_headers(self.frame, self.part, self.written[0], headers)

    @property
    def losses(self) -> tuple[str, ...]:
        """What payloads may hold and lose when they are resolved, in words."""
        reader = self.reader
        found = () if reader is None else (text for _, each in self.schemas for text in findings(each, reader).losses)
        return tuple(dict.fromkeys(found))

    @property
    def written(self) -> tuple[SchemaId, AvroSchema]:
        """The schema that writes, and its id. Raises InvalidEntryError where there are several."""
        if len(self.schemas) != 1:
            raise InvalidEntryError("several schemas, and nothing says which one writes")
        return self.schemas[0]

    def _unknown(self, schema_id: SchemaId) -> str:
        known = sorted(str(each) for each, _ in self.schemas)
        shown = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
        return f"written by the schema {schema_id}, which the spec does not name; known: {shown}"

    def _frames(self, payload: bytes) -> str:
        found = shown_frame(payload) or "no frame that is known"
        return f"the spec's frame is {self.frame!r}, and the bytes look like {found}"
