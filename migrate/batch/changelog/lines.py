"""The line of a side file for a changelog that was written for a new store: the last record that the store has."""

from __future__ import annotations

from migrate.batch.changelog.standing import ChangelogStanding
from migrate.model.store_partition import Line
from migrate.systems import System
from migrate.systems.checkpoint_file import OFFSET_UNKNOWN


def rewritten_lines(system: System, standing: ChangelogStanding, partition: str) -> tuple[Line, ...] | None:
    """The lines of a new store partition; None: nothing was written for it, and its changelog stays the old one's.

    A topic of its own without records has a line, too: some releases remove all stores of a task that lacks one.
    """
    topics = standing.topics
    if topics is None:
        return None
    changelog, last = topics.of(partition), standing.last_offsets[partition]
    if last is None and changelog.new_topic == changelog.topic:
        return None
    return (line_after(system, changelog.new_topic, changelog.number, last),)


def line_after(system: System, topic: str, number: int, last: int | None) -> Line:
    """The line of a store that has applied this record, by the system's own count; None: there is no record."""
    offset = (-1 if last is None else last) + system.ahead
    return topic, number, offset if offset >= 0 else OFFSET_UNKNOWN
