"""`boolean`: one byte, as Kafka's BooleanSerde writes it (since 3.4).

| offset | size | field             |
|--------|------|-------------------|
| 0      | 1    | 0x01 true, 0x00 false |

Source: org.apache.kafka.common.serialization.BooleanSerializer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from formats.errors import InvalidEntryError


@dataclass(frozen=True, slots=True)
class BooleanSerde:
    """True or false; `encode(decode(b)) == b`."""

    name: str = "boolean"

    def decode(self, payload: bytes) -> bool:
        if payload not in (b"\0", b"\1"):
            raise InvalidEntryError(f"a boolean is one byte, 00 or 01, not {payload[:8].hex() or 'nothing'}")
        return payload == b"\1"

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if not isinstance(payload, bool):
            raise InvalidEntryError(f"expected True or False, got {type(payload).__name__}")
        return bytes([payload])
