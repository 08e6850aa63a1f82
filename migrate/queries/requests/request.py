"""`StateQueryRequest`: a query, of which store, which partitions, and how far these have to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from migrate.queries.requests.position import PositionBound
from migrate.queries.requests.query import Query


@dataclass(frozen=True, slots=True)
class InStore:
    """The first half of a request."""

    name: str

    def with_query(self, query: Query) -> StateQueryRequest:
        """The request of this query: of all partitions, at any position."""
        return StateQueryRequest(self.name, query)


@dataclass(frozen=True, slots=True)
class StateQueryRequest:
    """Made by `StateQueryRequest.in_store(name).with_query(query)`."""

    store_name: str
    query: Query
    position_bound: PositionBound = field(default_factory=PositionBound)
    partitions: frozenset[int] | None = None
    """None: all that are on this host."""
    execution_info_enabled: bool = False
    is_require_active: bool = False

    @staticmethod
    def in_store(name: str) -> InStore:
        """Ask the store of this name."""
        return InStore(name)

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest:
        """Only store partitions that are this far answer."""
        return replace(self, position_bound=bound)

    def with_all_partitions(self) -> StateQueryRequest:
        """Ask every partition on this host."""
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest:
        """Ask these partitions."""
        return replace(self, partitions=frozenset(partitions))

    def enable_execution_info(self) -> StateQueryRequest:
        """Say how long each store partition took."""
        return replace(self, execution_info_enabled=True)

    def require_active(self) -> StateQueryRequest:
        """Not of a store partition that a running owner may have written to since it was read."""
        return replace(self, is_require_active=True)
