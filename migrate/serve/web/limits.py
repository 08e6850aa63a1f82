"""What the service grants to each request, and how much of it to all at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The service's limits; what is beyond one is refused with a status that says so."""

    rows: int = 10_000
    """Records of one answer that is not streamed."""
    answer_bytes: int = 8 << 20
    """Bytes of such an answer after which it ends: the rest follows by its cursor."""
    answer_seconds: float = 60.0
    """How long such an answer may take to be made, and then to be received."""
    large_bytes: int = 256 << 10
    """A value of this size is decoded and encoded in a thread, one at a time."""
    held_bytes: int = 256 << 20
    """Bytes of all answers that are made or being sent."""
    requests: int = 500
    """Requests that are answered at one time; fewer than connections, which may be idle."""
    scans: int = 8
    """Scans and pages that are read at one time."""
    scan_seconds: float = 3600.0
    """How long one streamed scan may take."""
    head_bytes: int = 64 << 10
    """The request's line and headers; keys are in the line."""
    head_seconds: float = 10.0
    """How long a client may take to send them."""
    write_seconds: float = 30.0
    """How long a client may take to receive 64 KiB."""
    idle_seconds: float = 60.0
    """How long a connection may stay open without a request."""
    connections: int = 1000
    move_seconds: float = 0.1
    """How long a query waits for a store that is being moved, before it is answered with 503."""
    connect_seconds: float = 1.0
    """How long another host may take to accept a connection."""
    forward_seconds: float = 10.0
    """How long another host may take to answer."""
    standby_seconds: float = 1.0
    """How long it may take where a standby can be asked instead."""
