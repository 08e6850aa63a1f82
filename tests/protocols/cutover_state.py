"""What the model of the cut-over is made of: places, a shared side file, the ledger's newest row, a command at work."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, StrEnum
from typing import NamedTuple


class Mutant(StrEnum):
    """The protocol with one thing wrong."""

    TWO_RENAMES = "two renames take the place of the exchange"
    NO_INTENT = "no row says what is about to happen"
    INTENT_NOT_SYNCED = "stores are moved before the row that says so is synced"
    RESULT_EARLY = "the result's row is committed before the exchange is synced"
    SIDE_AFTER_EXCHANGE = "the side file is written after the exchange only"
    SIDE_NOT_LOWERED_BACK = "a rollback does not lower the lines before it exchanges"
    SIDE_NOT_SYNCED = "the side file is renamed before it is synced"
    SIDE_NAME_NOT_SYNCED = "the side file's directory is not synced"
    SIDE_IN_PLACE = "the side file is written beside the one that it takes the place of"
    SIDE_WHOLE = "the side file is put back as the journal has it, other stores' lines included"
    RERUN_TRUSTS_LINES = "a rerun takes lowered lines that it finds for durable"
    RERUN_SKIPS_LINES = "a rerun does not lower the lines again"
    RERUN_SYNCS_ITS_OWN = "a rerun syncs the directories of those stores only that it moved itself"
    RERUN_REPEATS = "a rerun exchanges again, wherever the stores stand"
    RERUN_REFUSED = "a rerun is refused, since what stands live is not the source any more"
    ROLLBACK_REFUSED = "a rollback that was interrupted is not taken up again"
    FINALIZES_EARLY = "the old store is deleted before the row that says so is synced"
    FINALIZES_HALF = "a cut-over that is half done can be finalized"
    LINE_FIRST = "the line of a store that is moved in is written before the store is there"
    LINE_LEFT = "the line of a store that is moved out stays until it is out"
    FREES_BESIDE = "finalizing deletes an old store that nothing took the place of"
    LOCKS_PROBED = "locks are probed, before and after, but not held in between"


class Row(StrEnum):
    """The migration's newest row in the ledger."""

    __hash__ = str.__hash__

    VERIFIED = "verified"
    CUTTING_OVER = "cutting over"
    CUT_OVER = "cut over"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"
    FINALIZING = "finalizing"
    FINALIZED = "finalized"


class At(IntEnum):
    """Where a store may stand."""

    LIVE = 0
    SLOT = 1
    OLD = 2


OLD, NEW = "old", "new"
Places = tuple[str | None, str | None, str | None]
"""What stands where, of one store partition: live, slot, old."""
BEFORE: Places = (OLD, NEW, None)
BESIDE: Places = (None, NEW, OLD)
"""Where the new store has a name of its own, and `old` is the old one's own place."""

NO_LINE = -1
"""Everything is replayed: as good as the lowest line there is."""


class Lines(NamedTuple):
    """The side file that the stores of a task share."""

    stores: tuple[int, ...]
    foreign: int
    """Another store's line, which the application alone writes."""
    durable: bool = True
    """Whether its content is on disk, wherever its name is."""


TORN = Lines((), foreign=-1)


class Move(NamedTuple):
    """A rename or an exchange that is not synced yet: a power cut keeps it whole, or loses it whole."""

    partition: int
    places: tuple[tuple[At, str | None], ...]


class Command(NamedTuple):
    name: str
    at: int = 0
    touched: tuple[int, ...] = ()
    """The store partitions that it has moved itself; kept only where a mutant wants to know."""


class State(NamedTuple):
    """Places and side file as they are on disk for certain, and what a power cut may still undo."""

    places: tuple[Places, ...]
    side: Lines
    old: tuple[int, ...]
    new: tuple[int, ...]
    """Up to which offset of its changelog each store has every record."""
    foreign: int
    runs_left: int
    pending: tuple[Move | Lines, ...] = ()
    row: Row = Row.VERIFIED
    fresh_row: Row | None = None
    """Committed, not synced."""
    written: Lines | None = None
    """The new side file in the work_dir."""
    torn: frozenset[tuple[int, str]] = frozenset()
    """Stores that are deleted in part."""
    command: Command | None = None
    littered: bool = False
    application: tuple[str | None, ...] | None = None
    """The stores that a running application has opened."""

    @property
    def newest(self) -> Row:
        return self.fresh_row or self.row

    @property
    def seen(self) -> tuple[Places, ...]:
        """What stands where, for whoever looks."""
        moved = [list(places) for places in self.places]
        for move in self.pending:
            if isinstance(move, Move):
                for at, store in move.places:
                    moved[move.partition][at] = store
        return tuple((each[0], each[1], each[2]) for each in moved)

    @property
    def seen_side(self) -> Lines:
        return next((each for each in reversed(self.pending) if isinstance(each, Lines)), self.side)

    def position(self, partition: int, store: str | None) -> int:
        if store is None:
            return NO_LINE
        return (self.old if store == OLD else self.new)[partition]

    def with_pending(self, operation: Move | Lines) -> State:
        others = tuple(each for each in self.pending if each != operation)
        return self._replace(pending=(*others, operation))


Steps = Iterator[tuple[str, State]]
