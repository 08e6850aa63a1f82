"""Streamiz' value layout of timestamped stores; the formats have its byte table.

Nothing follows the value. A null value is never written: it deletes the key. Streamiz has no timestamp for "unknown";
-1 is written, as Kafka Streams does, which is older than any time there is. Source: Streamiz.Kafka.Net.SerDes
ValueAndTimestampSerDes (System.IO.BinaryWriter writes little-endian), State.Internal.StateManagerTools.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from struct import Struct
from struct import error as StructError

from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.format import Format
from formats.layout import PAYLOAD_FIELD, TIMESTAMP, VALUE_SIZE, Carried, Field, Framing

_TIMESTAMP = Struct("<q")
_SIZE = Struct("<i")
_HEAD = Struct("<qi")
NO_TIMESTAMP = -1


def pack_timestamp(timestamp_ms: int) -> bytes:
    """The timestamp's eight bytes. Raises InvalidEntryError for what is not a signed 64-bit number."""
    try:
        return _TIMESTAMP.pack(timestamp_ms)
    except StructError as error:
        raise InvalidEntryError(f"timestamp {timestamp_ms!r} is not a signed 64-bit number") from error


@dataclass(frozen=True, slots=True)
class SizedTimestampedValue:
    """timestamp | size of the payload | payload"""

    fields: tuple[Field, ...] = (
        Field(TIMESTAMP, _TIMESTAMP.size, pack_timestamp, is_little_endian=True),
        Field(VALUE_SIZE, _SIZE.size, framing=Framing.SIZE),
        PAYLOAD_FIELD,
    )

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        if len(data) < _HEAD.size:
            raise TruncatedEntryError("timestamped value", len(data), _HEAD.size)
        timestamp_ms, size = _HEAD.unpack_from(data)
        payload = data[_HEAD.size :]
        if size != len(payload):
            raise InvalidEntryError(f"the value says that it has {size} bytes, and {len(payload)} follow")
        return payload, {TIMESTAMP: timestamp_ms}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        timestamp = pack_timestamp(carried.get(TIMESTAMP, NO_TIMESTAMP))
        try:
            return timestamp + _SIZE.pack(len(payload)) + payload
        except StructError as error:
            raise InvalidEntryError(f"a value of {len(payload)} bytes is too large for its size field") from error


TIMESTAMPED = SizedTimestampedValue()
streamiz_format = partial(Format, column_families=("default",), has_changelog=True, keeps_keys_in_tasks=True)
