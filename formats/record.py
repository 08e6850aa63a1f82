"""The hub: every format converts to and from this one record type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from formats.encoding.headers import Headers


@dataclass(frozen=True, slots=True)
class Window:
    """The window or session that a key belongs to; times are milliseconds since the epoch."""

    start_ms: int
    end_ms: int | None = None
    """The time of a session's last record; None: a window, whose size only its owner knows."""
    sequence: int = 0
    """Distinguishes duplicates, where the store keeps them."""


@dataclass(frozen=True, slots=True)
class Version:
    """One value in the history of a key."""

    valid_from_ms: int
    value: Any
    """None: the key was deleted then."""


@dataclass(frozen=True, slots=True)
class History:
    """The former values of a key in one segment of a versioned store."""

    segment: int
    valid_to_ms: int
    """When the newest of them ended."""
    versions: tuple[Version, ...]
    """The former values, the newest first."""


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One entry of a state store, free of its byte layout.

    `key` and `value` are what the format's serdes make of the payload: bytes unless a serde is named.
    """

    key: Any
    value: Any
    timestamp_ms: int | None = None
    """Milliseconds since the epoch, as stored (Kafka Streams writes -1 for unknown); None: the format carries none."""
    headers: Headers | None = None
    """The record's headers; None: the format carries none."""
    window: Window | None = None
    """The window of a record in a windowed or session store."""
    history: History | None = None
    """The former values in an entry of a versioned store; such a record has no value of its own."""
    expires_ms: int | None = None
    """When its owner removes it, in milliseconds since the epoch; None: never, or the format carries no such time."""
