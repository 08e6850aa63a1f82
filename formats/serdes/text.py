"""`string`: UTF-8 text, as Kafka's StringSerde writes it.

| offset | size | field         |
|--------|------|---------------|
| 0      | rest | text in UTF-8 |

Java's own reader takes bytes that are not UTF-8 and puts a replacement character in their place; here they are a
reject. Java writes half a surrogate pair as `?`; here such a text cannot be written.
Source: org.apache.kafka.common.serialization.StringSerializer, StringDeserializer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from formats.errors import InvalidEntryError


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8, checked; `encode(decode(b)) == b`."""

    name: str = "string"

    def decode(self, payload: bytes) -> str:
        """The text of a payload. Raises InvalidEntryError for what is not UTF-8."""
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise InvalidEntryError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """The payload of a text. Raises InvalidEntryError for anything else, and for text that UTF-8 cannot hold."""
        if not isinstance(payload, str):
            raise InvalidEntryError(f"expected text, got {type(payload).__name__}")
        try:
            return payload.encode()
        except UnicodeEncodeError as error:
            raise InvalidEntryError(f"text that UTF-8 cannot hold: {error.reason} at {error.start}") from error
