"""How far a store is, by the input records that it reflects, and how far it has to be for a query.

Source: org.apache.kafka.streams.query.Position, PositionBound; internals.StoreQueryUtils.isPermitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NOTHING: Mapping[tuple[str, int], int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Position:
    """By (topic, partition) the offset of the last input record that a store reflects."""

    offsets: Mapping[tuple[str, int], int] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def empty(cls) -> Position:
        """The position of a store that reflects nothing, or whose position is not known."""
        return cls()

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """This position, and at least that offset."""
        known = self.offsets.get((topic, partition), offset)
        return Position({**self.offsets, (topic, partition): max(known, offset)})

    @classmethod
    def merged(cls, positions: Iterable[Position]) -> Position:
        """The farthest of all, topic partition by topic partition."""
        found: dict[tuple[str, int], int] = {}
        for each in positions:
            for place, offset in each.offsets.items():
                found[place] = max(found.get(place, offset), offset)
        return cls(found)


@dataclass(frozen=True, slots=True)
class PositionBound:
    """How far a store has to be."""

    position: Position = field(default_factory=Position)

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Any position will do."""
        return cls()

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """At this position at least, in the topic partitions that it names."""
        return cls(position)

    def permits(self, position: Position, partition: int | None) -> bool:
        """Whether a store partition is far enough; `partition`: only its own topic partitions count, None: all do."""
        bounds = {place: at for place, at in self.position.offsets.items() if partition in (None, place[1])}
        return all(position.offsets.get(place, -1) >= bound for place, bound in bounds.items())
