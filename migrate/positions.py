"""Changelog positions: what the files beside the RocksDB directories say of one store partition."""

from __future__ import annotations

from migrate.keyrange import Stored

Line = tuple[str, int, int]
"""(changelog topic, partition, offset); what the offset means is the owning system's affair."""


class Positions(Stored):
    """Of one store partition."""

    lines: tuple[Line, ...] = ()
    """Its own lines in a file that the stores of a task share."""
    own_file: str | None = None
    """The text of the file that is this store partition's alone; None: there is none."""

    def is_behind(self, other: Positions) -> bool:
        """Whether it has, of a topic that both name, less than the other: a known offset that is lower."""
        offsets = {(topic, number): offset for topic, number, offset in other.lines}
        return any(0 <= offset < offsets.get((topic, number), 0) for topic, number, offset in self.lines)

    def lowest(self, other: Positions) -> Positions:
        """A position that both stores have reached: the owner replays from there, into whichever of them it finds."""
        offsets = {(topic, number): offset for topic, number, offset in other.lines}
        both = [
            (topic, number, min(offset, offsets[topic, number]))
            for topic, number, offset in self.lines
            if (topic, number) in offsets
        ]
        return self.model_copy(update={"lines": tuple(both)})
