"""Frames: where a stored Avro payload names the schema that wrote it.

| frame       | where                                                | offset | size | field                       |
|-------------|------------------------------------------------------|--------|------|-----------------------------|
| `none`      | payload                                              | 0      | rest | Avro                        |
| `confluent` | payload                                              | 0      | 1    | 0x00                        |
|             |                                                      | 1      | 4    | schema id, big-endian       |
|             |                                                      | 5      | rest | Avro                        |
| `header`    | header `__key_schema_id`, `__value_schema_id`        | 0      | 1    | 0x01                        |
|             |                                                      | 1      | 16   | GUID, RFC 4122 byte order   |
|             | payload                                              | 0      | rest | Avro                        |

Of several such headers the last one counts, as for Java and .NET (Python's own client takes the first). Where there is
none, or its value is null, the payload has a `confluent` frame, as Confluent's own readers see it; a header may hold
that frame's five bytes too. Source: io.confluent.kafka.serializers.schema.id.{SchemaId, HeaderSchemaIdSerializer,
PrefixSchemaIdSerializer, DualSchemaIdDeserializer}.
"""

from __future__ import annotations

from struct import Struct
from typing import Literal
from uuid import UUID

from formats.encoding.headers import Headers
from formats.errors import InvalidEntryError, TruncatedEntryError

Frame = Literal["none", "confluent", "header"]
Part = Literal["key", "value"]
SchemaId = int | UUID | None
"""How a frame names a schema; None: the frame does not name it."""

PREFIX = Struct(">BI")
PREFIX_VERSION = 0
GUID_VERSION = 1
GUID_SIZE = 17
HEADER_NAMES: dict[Part, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}


def pack_prefix(schema_id: int) -> bytes:
    """The five bytes before a payload in a `confluent` frame."""
    return PREFIX.pack(PREFIX_VERSION, schema_id)


def pack_guid(guid: UUID) -> bytes:
    """The value of a schema id header."""
    return bytes([GUID_VERSION]) + guid.bytes


def unpack_prefix(payload: bytes) -> tuple[int, bytes]:
    """(schema id, Avro). Raises EntryError."""
    if payload and payload[0] != PREFIX_VERSION:
        raise InvalidEntryError(f"no Confluent frame: the first byte is {payload[0]:#04x}, not 0x00")
    if len(payload) < PREFIX.size:
        raise TruncatedEntryError("Confluent frame", len(payload), PREFIX.size)
    _, schema_id = PREFIX.unpack_from(payload)
    return schema_id, payload[PREFIX.size :]


def unpack_header(value: bytes) -> int | UUID:
    """The id or GUID in a schema id header. Raises InvalidEntryError."""
    if len(value) == GUID_SIZE and value[0] == GUID_VERSION:
        return UUID(bytes=value[1:])
    if len(value) == PREFIX.size and value[0] == PREFIX_VERSION:
        return int.from_bytes(value[1:], "big")
    raise InvalidEntryError(f"a schema id header that is neither 01 and a GUID nor 00 and an id: {value[:20].hex()}")


def unframe(frame: Frame, part: Part, payload: bytes, headers: Headers | None) -> tuple[SchemaId, bytes]:
    """(the schema that the frame names, Avro). Raises EntryError."""
    if frame == "none":
        return None, payload
    named = headers.get(HEADER_NAMES[part]) if frame == "header" and headers is not None else None
    return unpack_prefix(payload) if named is None else (unpack_header(named), payload)


def framed_headers(frame: Frame, part: Part, schema_id: SchemaId, headers: Headers | None) -> Headers:
    """`headers` with the schema that the frame names there, and no other: a header takes precedence over a prefix."""
    kept = headers if headers is not None else Headers()
    name = HEADER_NAMES[part]
    if frame == "header":
        if not isinstance(schema_id, UUID):
            raise InvalidEntryError("a header frame names its schema by a GUID")
        return kept.replaced(name, pack_guid(schema_id))
    pairs = list(kept)
    return kept if all(each != name for each, _ in pairs) else Headers.of(pair for pair in pairs if pair[0] != name)
