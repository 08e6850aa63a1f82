"""Events of a run, for listeners: progress displays, logs, and tests that kill the run there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """A point that a run has reached. Everything before it is durable."""

    name: str
    """Such as "chunk.committed": one of EVENTS or DRY_RUN_EVENTS."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What it is about, by name; each event has facts of its own."""


Listener = Callable[[Event], None]
RUN_EVENTS = (
    "warning",
    "source.checked",
    "ledger.opened",
    "snapshot.taken",
    "plan.stored",
    "chunks.adopted",
    "orphans.removed",
    "conversion.revised",
    "run.begun",
    "engine.chosen",
    "times.started",
    "times.made",
    "times.committed",
    "chunk.started",
    "chunk.finished",
    "chunk.committed",
    "chunk.failed",
    "dead-letters.written",
    "assemble.started",
    "assemble.ingested",
    "assemble.committed",
    "verify.started",
    "verify.resumed",
    "verify.progressed",
    "verify.ranges-committed",
    "verify.committed",
    "changelog.intended",
    "changelog.claimed",
    "changelog.created",
    "changelog.opened",
    "changelog.written",
    "changelog.committed",
    "changelog.verified",
    "publish.started",
    "publish.built",
    "publish.intended",
    "publish.renamed",
    "publish.committed",
)
TAIL_EVENTS = ("tail.started", "tail.made", "tail.committed", "tail.written", "tail.confirmed", "tail.verified")
"""Events of a catch-up, beside those of assembling and verifying."""
REBUILD_EVENTS = (
    "rebuild.claimed",
    "rebuild.made",
    "rebuild.committed",
    "rebuild.written",
    "rebuild.confirmed",
    "rebuild.verified",
)
"""Events of a run that makes store partitions from their changelogs alone."""
RESTORE_EVENTS = ("restore.pinned", "restore.made", "restore.committed", "restore.finished")
"""Events of the making of an old store from its changelog."""
SWITCH_EVENTS = (
    "cutover.started",
    "cutover.checked",
    "cutover.intended",
    "cutover.positioned",
    "cutover.exchanged",
    "cutover.old-set-aside",
    "cutover.done",
    "cutover.committed",
    "rollback.started",
    "rollback.intended",
    "rollback.positioned",
    "rollback.exchanged",
    "rollback.done",
    "rollback.committed",
    "finalize.started",
    "finalize.intended",
    "finalize.removed",
    "finalize.committed",
    "abandon.started",
    "abandon.renamed",
    "abandon.removed",
)
BROKER_EVENTS = (
    "cutover.asked",
    "cutover.marked",
    "rollback.offsets-set-back",
    "rollback.undone",
    "finalize.topics-removed",
    "abandon.topics-removed",
)
"""Events of a switch where changelogs were written."""
EVENTS = RUN_EVENTS + TAIL_EVENTS + REBUILD_EVENTS + RESTORE_EVENTS + SWITCH_EVENTS + BROKER_EVENTS
DRY_RUN_EVENTS = ("dry-run.started", "dry-run.progressed")
"""Events of a dry run, which writes nothing."""


def each_of(*listeners: Listener) -> Listener:
    """A listener that passes each event to these listeners, in order."""

    def listener(event: Event) -> None:
        for each in listeners:
            each(event)

    return listener


def ignore(_: Event) -> None:
    """A listener that does nothing."""
