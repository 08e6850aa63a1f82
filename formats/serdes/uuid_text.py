"""`uuid`: a UUID as Kafka's UUIDSerde writes it: its text.

| offset | size | field                                                            |
|--------|------|------------------------------------------------------------------|
| 0      | 36   | 8-4-4-4-12 lower-case hexadecimal digits with hyphens, in ASCII  |

Java's reader takes other spellings too (upper case, fewer digits); its writer never makes them, so here they are a
reject. Source: org.apache.kafka.common.serialization.UUIDSerializer, java.util.UUID.toString.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from formats.errors import InvalidEntryError, TruncatedEntryError

SIZE = 36
_CANONICAL = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class UuidSerde:
    """`uuid.UUID` objects; `encode(decode(b)) == b`."""

    name: str = "uuid"

    def decode(self, payload: bytes) -> UUID:
        """The UUID of a payload. Raises EntryError for anything but the canonical text."""
        if len(payload) < SIZE:
            raise TruncatedEntryError("uuid", len(payload), SIZE)
        if _CANONICAL.fullmatch(payload) is None:
            raise InvalidEntryError(f"not the text of a UUID in lower case: {payload[:SIZE]!r}")
        return UUID(payload.decode())

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """The payload of a UUID. Raises InvalidEntryError for anything but a `uuid.UUID`."""
        if not isinstance(payload, UUID):
            raise InvalidEntryError(f"expected a uuid.UUID, got {type(payload).__name__}")
        return str(payload).encode()
