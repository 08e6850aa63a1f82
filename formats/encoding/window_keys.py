"""Keys of windowed and session stores, of Kafka Streams and Streamiz alike; the stores have their byte tables.

The key's size is not stored, so keys are read from their end. Source: org.apache.kafka.streams.state.internals
WindowKeySchema, SessionKeySchema; Streamiz.Kafka.Net.State.Helper.WindowKeyHelper.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.layout import PAYLOAD_FIELD, SEQUENCE, WINDOW_END, WINDOW_START, Carried, Field

_WINDOW = Struct(">qi")
_SESSION = Struct(">qq")


@dataclass(frozen=True, slots=True)
class WindowKey:
    """payload | start | sequence"""

    fields: tuple[Field, ...] = (PAYLOAD_FIELD, Field(WINDOW_START, 8), Field(SEQUENCE, 4))

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        payload, (start, sequence) = _cut(data, _WINDOW, "window key")
        return payload, {WINDOW_START: start, SEQUENCE: sequence}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return payload + _join(_WINDOW, carried[WINDOW_START], carried.get(SEQUENCE, 0))


@dataclass(frozen=True, slots=True)
class SessionKey:
    """payload | end | start"""

    fields: tuple[Field, ...] = (PAYLOAD_FIELD, Field(WINDOW_END, 8), Field(WINDOW_START, 8))

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        payload, (end, start) = _cut(data, _SESSION, "session key")
        return payload, {WINDOW_END: end, WINDOW_START: start}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return payload + _join(_SESSION, carried[WINDOW_END], carried[WINDOW_START])


def _cut(data: bytes, struct: Struct, what: str) -> tuple[bytes, tuple[int, int]]:
    if len(data) < struct.size:
        raise TruncatedEntryError(what, len(data), struct.size)
    first, second = struct.unpack(data[-struct.size :])
    return data[: -struct.size], (first, second)


def _join(struct: Struct, first: int, second: int) -> bytes:
    try:
        return struct.pack(first, second)
    except StructError as error:
        raise InvalidEntryError(f"{first!r} and {second!r} do not fit a key") from error


WINDOW_KEY = WindowKey()
SESSION_KEY = SessionKey()
