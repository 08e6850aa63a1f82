"""`StateQueryResult`: the result of a query, or why there is none, of each store partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from migrate.queries.requests.position import Position


class FailureReason(Enum):
    """Why a store partition has no result."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """Stores of this kind do not answer such queries."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """An active one was required, and a running owner has this one."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """It is not as far as the position bound: retry later, or elsewhere."""
    NOT_PRESENT = "NOT_PRESENT"
    """It is not on this host, or is being moved."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """The store has no such partition."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """Reading failed."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one store partition; `failure_reason`: None if there is one."""

    result: Any = None
    """What the query describes; None: the store partition does not have it."""
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    position: Position = Position()  # noqa: RUF009 - frozen
    """How far the store partition is; empty: not known."""
    execution_info: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether there is a result."""
        return self.failure_reason is None

    @property
    def is_failure(self) -> bool:
        """Whether there is none."""
        return self.failure_reason is not None


@dataclass(frozen=True, slots=True)
class StateQueryResult:
    """The results by partition; of a RocksDB directory by itself, which has no number, under 0."""

    partition_results: Mapping[int, QueryResult]

    @property
    def only_partition_result(self) -> QueryResult | None:
        """The one result that is not empty, or None. Raises ValueError where there are several."""
        found = [each for each in self.partition_results.values() if each.is_success and each.result is not None]
        if len(found) > 1:
            raise ValueError(f"{len(found)} partitions have a result: ask `partition_results`")
        return found[0] if found else None

    @property
    def position(self) -> Position:
        """How far the store partitions are, together."""
        return Position.merged(each.position for each in self.partition_results.values())
