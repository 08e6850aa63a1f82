"""The hub: every format converts to and from this one record type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One entry of a state store, free of its byte layout.

    `key` and `value` are what the format's serdes make of the payload: bytes unless a serde is named.
    """

    key: Any
    value: Any
    timestamp_ms: int | None = None
    """Milliseconds since the epoch, as stored (Kafka Streams writes -1 for unknown); None: the format carries none."""
