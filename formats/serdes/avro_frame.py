"""Frames: where a stored Avro payload names the schema that wrote it.

| frame       | where                                                | offset | size | field                       |
|-------------|------------------------------------------------------|--------|------|-----------------------------|
| `none`      | payload                                              | 0      | rest | Avro                        |
| `confluent` | payload                                              | 0      | 1    | 0x00                        |
|             |                                                      | 1      | 4    | schema id, big-endian       |
|             |                                                      | 5      | rest | Avro                        |
| `apicurio`  | payload                                              | 0      | 1    | 0x00                        |
|             |                                                      | 1      | 8    | global id, big-endian       |
|             |                                                      | 9      | rest | Avro                        |
| `glue`      | payload                                              | 0      | 1    | 0x03                        |
|             |                                                      | 1      | 1    | compression: 0x00, 0x05 zlib |
|             |                                                      | 2      | 16   | schema version's UUID       |
|             |                                                      | 18     | rest | Avro                        |
| `header`    | header `__key_schema_id`, `__value_schema_id`        | 0      | 1    | 0x01                        |
|             |                                                      | 1      | 16   | GUID, RFC 4122 byte order   |
|             | payload                                              | 0      | rest | Avro                        |

Of several such headers the last one counts, as for Java and .NET (Python's own client takes the first). Where there is
none, or its value is null, the payload has a `confluent` frame, as Confluent's own readers see it; a header may hold
that frame's five bytes too. Source: io.confluent.kafka.serializers.schema.id.{SchemaId, HeaderSchemaIdSerializer,
PrefixSchemaIdSerializer, DualSchemaIdDeserializer};
io.apicurio.registry.serde.DefaultIdHandler; com.amazonaws.services.schemaregistry.utils.AWSSchemaRegistryConstants.
"""

from __future__ import annotations

from struct import Struct
from typing import Literal, get_args
from uuid import UUID

from formats.encoding.headers import Headers
from formats.errors import InvalidEntryError, TruncatedEntryError

Frame = Literal["none", "confluent", "apicurio", "glue", "header"]
FRAMES: tuple[Frame, ...] = get_args(Frame)
Part = Literal["key", "value"]
SchemaId = int | UUID | None
"""How a frame names a schema; None: the frame does not name it."""

PREFIX = Struct(">BI")
APICURIO_PREFIX = Struct(">Bq")
PREFIX_VERSION = 0
GLUE_HEAD = b"\x03\x00"
GLUE_SIZE = 18
COMPRESSED = {0: "not compressed", 5: "compressed with zlib"}
GUID_VERSION = 1
GUID_SIZE = 17
HEADER_NAMES: dict[Part, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}


def pack_frame(frame: Frame, schema_id: SchemaId) -> bytes:
    """The bytes before a payload; none where the frame is not in the payload."""
    if frame == "glue" and isinstance(schema_id, UUID):
        return GLUE_HEAD + schema_id.bytes
    if frame == "apicurio" and isinstance(schema_id, int):
        return APICURIO_PREFIX.pack(PREFIX_VERSION, schema_id)
    is_prefix = frame in ("confluent", "header") and isinstance(schema_id, int)
    return PREFIX.pack(PREFIX_VERSION, schema_id) if is_prefix else b""


def pack_guid(guid: UUID) -> bytes:
    """The value of a schema id header."""
    return bytes([GUID_VERSION]) + guid.bytes


def _unpack_id(name: str, prefix: Struct, payload: bytes) -> tuple[int, bytes]:
    """(schema id, Avro). Raises EntryError."""
    _check_head(name, payload, PREFIX_VERSION, prefix.size)
    _, schema_id = prefix.unpack_from(payload)
    return schema_id, payload[prefix.size :]


def _unpack_glue(payload: bytes) -> tuple[UUID, bytes]:
    _check_head("Glue", payload, GLUE_HEAD[0], GLUE_SIZE)
    if payload[1]:
        how = COMPRESSED.get(payload[1], f"with the compression byte {payload[1]:#04x}")
        raise InvalidEntryError(f"a Glue payload {how}: only payloads that are not compressed can be read")
    return UUID(bytes=payload[2:GLUE_SIZE]), payload[GLUE_SIZE:]


def _check_head(name: str, payload: bytes, first: int, size: int) -> None:
    """Raises EntryError unless the payload begins with this byte, and is as long as the frame."""
    if payload and payload[0] != first:
        raise InvalidEntryError(f"no {name} frame: the first byte is {payload[0]:#04x}, not {first:#04x}")
    if len(payload) < size:
        raise TruncatedEntryError(f"{name} frame", len(payload), size)


def shown_frame(payload: bytes) -> str:
    """The frame that a payload seems to have, in words with the id; empty: none that is known."""
    return _frame_found(payload)[0]


def is_for_a_function(payload: bytes) -> bool:
    """Whether a payload seems to be what no serde here reads, behind a frame that is known."""
    return _frame_found(payload)[1]


def _frame_found(payload: bytes) -> tuple[str, bool]:
    """(the frame in words, whether no serde reads what is behind it)."""
    if len(payload) >= GLUE_SIZE and payload[0] == GLUE_HEAD[0] and payload[1] in COMPRESSED:
        how = COMPRESSED[payload[1]]
        return f"03: AWS Glue's, schema version {UUID(bytes=payload[2:GLUE_SIZE])}, {how}", payload[1] != GLUE_HEAD[1]
    if len(payload) < PREFIX.size or payload[0] != PREFIX_VERSION:
        return "", False
    schema_id, rest = _unpack_id("Confluent", PREFIX, payload)
    if not schema_id and len(payload) >= APICURIO_PREFIX.size:
        return f"00, then eight bytes: Apicurio's, id {_unpack_id('Apicurio', APICURIO_PREFIX, payload)[0]}", False
    if rest[:1] in (b"{", b"["):
        return f"00, then the id {schema_id} and JSON: Confluent's for JSON Schema", True
    if rest[:1] == b"\0" and rest[1:] and _is_protobuf(rest[1:]):
        return f"00, then the id {schema_id} and what may be message indexes: Confluent's for Protobuf", True
    return f"00, then the id {schema_id}: Confluent's", False


def _is_protobuf(data: bytes) -> bool:
    """Whether bytes are fields of Protobuf to their end."""
    at = 0
    while at < len(data):
        kind, at = data[at] & 7, _varint_end(data, at)
        if kind not in (0, 1, 2, 5):
            return False
        start, end = at, _varint_end(data, at)
        if kind in (1, 5):
            at += {1: 8, 5: 4}[kind]
        else:
            size = sum((byte & 127) << 7 * number for number, byte in enumerate(data[start:end]))
            at = end + (size if kind == 2 else 0)
    return at == len(data)


def _varint_end(data: bytes, at: int) -> int:
    return next((number + 1 for number in range(at, min(at + 10, len(data))) if data[number] < 128), len(data) + 1)


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
    if frame == "apicurio":
        return _unpack_id("Apicurio", APICURIO_PREFIX, payload)
    if frame == "glue":
        return _unpack_glue(payload)
    named = headers.get(HEADER_NAMES[part]) if frame == "header" and headers is not None else None
    return _unpack_id("Confluent", PREFIX, payload) if named is None else (unpack_header(named), payload)


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
