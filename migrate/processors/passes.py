"""When old values are moved, and how one sees the end: for hosts that assign partitions to processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from migrate.errors import SpecError

K = TypeVar("K")
_LOG = logging.getLogger(__name__)
_LONGEST_SLICE = 0.05


class ConvergePace:
    """How much a loop may move beside its own work: a share of its time, and so many values between two commits."""

    def __init__(self, share: float, per_checkpoint: int, interval: float) -> None:
        """`interval`: the seconds between two slices."""
        if not (0 < share <= 1 and per_checkpoint > 0 and interval > 0):
            raise SpecError(
                f"share={share}, per_checkpoint={per_checkpoint}, interval={interval} leave nothing to move in",
                hint="share is above 0 and at most 1; the others are above 0",
            )
        self._share = share
        self._per_checkpoint = per_checkpoint
        self._interval = interval
        self._left = per_checkpoint
        self.moved(0)

    def slice(self) -> tuple[float, int]:
        """(when it has to end by the monotonic clock, the most values that it may move)"""
        now = time.monotonic()
        earned = (now - self._ended_at) * self._share / max(1 - self._share, 0.01)
        return now + min(max(earned, 0.001), _LONGEST_SLICE), self._left

    def moved(self, count: int) -> None:
        """A slice has ended."""
        self._ended_at = time.monotonic()
        self.due_at = self._ended_at + self._interval
        self._left -= count

    def committed(self) -> None:
        self._left = self._per_checkpoint


@dataclass
class Pass:
    """One way through the old values of one assigned partition, in the order of their keys.

    It has no iterator: the host's own may not outlive a slice.
    """

    name: str
    """Of the partition, for people."""
    left: int = 1
    """An estimate of the old values."""
    next_key: bytes = b""
    has_seen_old: bool = False
    has_seen_rejects: bool = False
    is_converged: bool = False
    rests: bool = False
    """Until the next commit, or until rejects have gone: another look would see the same."""

    def moved(self) -> None:
        self.has_seen_old = True
        self.left = max(self.left - 1, 1)

    def end(self) -> None:
        """The end of the partition is reached: it has converged if no old value was seen in what is committed."""
        self.next_key = b""
        if self.has_seen_old or self.has_seen_rejects:
            self.rests = True
        else:
            self.is_converged = True
            self.left = 0
            _LOG.info("%s has converged: no old value is left in it", self.name)


@dataclass
class Passes(Generic[K]):
    """Those of all partitions that are assigned to this process."""

    what: str
    """What is converging, for people."""
    pace: ConvergePace
    are_converged: bool = False
    """Whether all had converged at the end of the last slice, and there was one."""
    _passes: dict[K, Pass] = field(default_factory=dict)

    def find(self, partition: K) -> Pass | None:
        return self._passes.get(partition)

    def are_of(self, assigned: Collection[K]) -> bool:
        """Whether these are the partitions that are kept."""
        return self._passes.keys() == set(assigned)

    def keep(self, assigned: dict[K, Pass]) -> None:
        """Only these; others are forgotten."""
        self._passes = assigned
        self.are_converged = False

    def committed(self) -> None:
        """What was moved is committed."""
        self.pace.committed()
        self._begin_again(after_old=True)

    def advance(self, move: Callable[[K, Pass, float, int], int], *, has_rejects: bool) -> None:
        """A slice. `move`: up to a time, move at most so many old values of one partition; how many it moved."""
        if not has_rejects:
            self._begin_again(after_old=False)
        until, most = self.pace.slice()
        moved = 0
        for partition in self.unfinished:
            if moved >= most or time.monotonic() >= until:
                break
            moved += move(partition, self._passes[partition], until, most - moved)
        self.pace.moved(moved)
        if not self.are_converged and self._passes and all(each.is_converged for each in self._passes.values()):
            self.are_converged = True
            _LOG.info(
                "%s: all that is assigned to this process has converged. Once each process of the group says so, stop "
                "them all, take the adapter out, and start them all",
                self.what,
            )

    def _begin_again(self, *, after_old: bool) -> None:
        """Those that rest: the ones that have seen old values which were moved, or those that saw rejects alone."""
        for each in self._passes.values():
            if each.rests and each.has_seen_old is after_old:
                each.has_seen_old = each.has_seen_rejects = each.rests = False

    @property
    def unfinished(self) -> list[K]:
        """Those in which there is something to look at now."""
        return [each for each, state in self._passes.items() if not (state.is_converged or state.rests)]

    @property
    def left(self) -> int:
        return sum(state.left for state in self._passes.values())

    def has_converged(self, partition: K) -> bool:
        state = self._passes.get(partition)
        return state is not None and state.is_converged
