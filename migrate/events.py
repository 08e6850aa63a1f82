"""What happens in a run, for whoever listens: progress displays, logs, and tests that kill it there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One point that a run has reached. Everything before it is durable."""

    name: str
    """One of EVENTS."""
    facts: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]

EVENTS = (
    "source.checked",
    "snapshot.taken",
    "plan.stored",
    "run.begun",
    "chunk.started",
    "chunk.finished",
    "chunk.committed",
    "chunk.failed",
    "dead-letters.written",
    "assemble.started",
    "assemble.ingested",
    "assemble.committed",
    "verify.started",
    "verify.progressed",
    "verify.committed",
    "publish.started",
    "publish.built",
    "publish.intended",
    "publish.renamed",
    "publish.committed",
)


def ignore(_: Event) -> None:
    """The listener of a run that nobody watches."""
