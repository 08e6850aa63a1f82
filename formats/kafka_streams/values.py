"""Value layouts of Kafka Streams, with a timestamp and, since 4.3, with headers; `stores` has their byte tables.

Sessions have no timestamp. Source: org.apache.kafka.streams.state.internals.ValueAndTimestampSerializer,
ValueTimestampHeadersSerializer, AggregationWithHeadersSerializer; KIP-1271.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from formats.encoding.headers import Headers, pack_sized, unpack_sized
from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.layout import HEADERS, PAYLOAD_FIELD, TIMESTAMP, UNKNOWN_TIME, Carried, Field, Framing

_INT64 = Struct(">q")


def pack_timestamp(timestamp_ms: int) -> bytes:
    """The timestamp's eight bytes. Raises InvalidEntryError for what is not a signed 64-bit number."""
    try:
        return _INT64.pack(timestamp_ms)
    except StructError as error:
        raise InvalidEntryError(f"timestamp {timestamp_ms!r} is not a signed 64-bit number") from error


def cut_int64(data: bytes, what: str) -> tuple[int, bytes]:
    """(the number that the data begins with, the rest). Raises TruncatedEntryError."""
    if len(data) < _INT64.size:
        raise TruncatedEntryError(what, len(data), _INT64.size)
    (number,) = _INT64.unpack_from(data)
    return number, data[_INT64.size :]


_TIMESTAMP_FIELD = Field(TIMESTAMP, _INT64.size, pack_timestamp)
_HEADERS_FIELD = Field(HEADERS, None, pack_sized, Framing.SPAN)


@dataclass(frozen=True, slots=True)
class TimestampedValue:
    """timestamp | payload"""

    fields: tuple[Field, ...] = (_TIMESTAMP_FIELD, PAYLOAD_FIELD)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        timestamp_ms, payload = cut_int64(data, "timestamped value")
        return payload, {TIMESTAMP: timestamp_ms}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return pack_timestamp(carried.get(TIMESTAMP, UNKNOWN_TIME)) + payload


@dataclass(frozen=True, slots=True)
class HeadersValue:
    """headers | timestamp | payload"""

    fields: tuple[Field, ...] = (_HEADERS_FIELD, _TIMESTAMP_FIELD, PAYLOAD_FIELD)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        headers, rest = unpack_sized(data)
        timestamp_ms, payload = cut_int64(rest, "value behind its headers")
        return payload, {HEADERS: headers, TIMESTAMP: timestamp_ms}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        headers = pack_sized(carried.get(HEADERS, Headers()))
        return headers + pack_timestamp(carried.get(TIMESTAMP, UNKNOWN_TIME)) + payload


@dataclass(frozen=True, slots=True)
class SessionHeadersValue:
    """headers | payload"""

    fields: tuple[Field, ...] = (_HEADERS_FIELD, PAYLOAD_FIELD)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        headers, payload = unpack_sized(data)
        return payload, {HEADERS: headers}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return pack_sized(carried.get(HEADERS, Headers())) + payload


TIMESTAMPED = TimestampedValue()
WITH_HEADERS = HeadersValue()
SESSION_WITH_HEADERS = SessionHeadersValue()
