"""`string`: UTF-8 text, as Kafka's StringSerde writes it; `uuid`: the text of a UUID, as Kafka's UUIDSerde writes it.

| serde    | offset | size | field                                                            |
|----------|--------|------|------------------------------------------------------------------|
| `string` | 0      | rest | text in UTF-8                                                    |
| `uuid`   | 0      | 36   | 8-4-4-4-12 lower-case hexadecimal digits with hyphens, in ASCII  |

Java's own reader takes bytes that are not UTF-8 and puts a replacement character in their place; here they are a
reject. Java writes half a surrogate pair as `?`; here such a text cannot be written. Of a UUID, Java's reader takes
other spellings too (upper case, fewer digits); its writer never makes them, so here they are a reject.
Source: org.apache.kafka.common.serialization.StringSerializer, StringDeserializer, UUIDSerializer,
java.util.UUID.toString.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from formats.errors import InvalidEntryError, TruncatedEntryError

SIZE = 36
"""Of a UUID's text."""
_CANONICAL = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8, checked; `encode(decode(b)) == b`."""

    name: str = "string"

    def decode(self, payload: bytes) -> str:
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise InvalidEntryError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if not isinstance(payload, str):
            raise InvalidEntryError(f"expected text, got {type(payload).__name__}")
        try:
            return payload.encode()
        except UnicodeEncodeError as error:
            raise InvalidEntryError(f"text that UTF-8 cannot hold: {error.reason} at {error.start}") from error


@dataclass(frozen=True, slots=True)
class UuidSerde:
    """`uuid.UUID` objects; `encode(decode(b)) == b`."""

    name: str = "uuid"

    def decode(self, payload: bytes) -> UUID:
        if len(payload) < SIZE:
            raise TruncatedEntryError("uuid", len(payload), SIZE)
        if _CANONICAL.fullmatch(payload) is None:
            raise InvalidEntryError(f"not the text of a UUID in lower case: {payload[:SIZE]!r}")
        return UUID(payload.decode())

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if not isinstance(payload, UUID):
            raise InvalidEntryError(f"expected a uuid.UUID, got {type(payload).__name__}")
        return str(payload).encode()
