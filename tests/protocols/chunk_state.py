"""What the model of the chunk protocol is made of: the ledger, attempts with their files, drivers, assembled stores."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.protocols.disk import File, Kept, is_visible

Key = tuple[int, int, int]
"""An attempt: run, chunk, and which of this run's attempts on the chunk; files are named by it."""
LINKED = 9
"""The third part of the key of an adopted attempt's hard link."""


class Mutant(StrEnum):
    """The protocol with one thing wrong."""

    SST_NOT_SYNCED = "the SST is not synced"
    NAME_NOT_SYNCED = "the directory of the SST is not synced"
    RECEIPT_FIRST = "the receipt is returned before the SST is synced"
    SHARED_NAME = "attempts of a chunk share a file name"
    ROW_NOT_SYNCED = "the driver goes on before its row is synced"
    OPENED_UNSYNCED = "the newest row that was read is not synced before it is built upon"
    NO_FENCING = "a row is appended wherever the log ends by now"
    COLLECTS_ANY = "files of newer and of unknown runs are collected too"
    COLLECTS_BEFORE_RUN = "orphans are collected before the run's row is committed"
    ADOPTS_IN_PLACE = "a receipt of an older run is committed with the files where they are"
    DROPS_TORN_ENTRY = "a torn log entry is unlinked"
    REFUSES_TORN_ENTRY = "a ledger whose newest entry is torn is refused"
    STORE_NOT_SYNCED = "the assembled row is committed before the store is synced"
    ASSEMBLES_EARLY = "the store is assembled from what is done so far"
    VERIFIES_AS_PLANNED = "the store is held against the plan's chunks"


class Kind(StrEnum):
    __hash__ = str.__hash__

    RUN = "run"
    CHUNK = "chunk"
    ASSEMBLED = "assembled"
    VERIFIED = "verified"
    NOTHING = "nothing"


class Row(NamedTuple):
    kind: Kind
    run: int = 0
    names: Key | None = None


class Entry(NamedTuple):
    """One version of the log."""

    row: Row
    kept: Kept = Kept.CACHED


class Attempt(NamedTuple):
    key: Key
    at: str
    """The next thing it does; empty once its process is gone or has nothing more to do."""
    sst: File | None = None
    receipt: File | None = None


class Store(NamedTuple):
    """An assembled store, in a directory of its run."""

    run: int
    chunks: tuple[tuple[int, bool], ...]
    """Each chunk in it, and whether its file was whole."""
    kept: Kept = Kept.CACHED


class Driver(NamedTuple):
    run: int
    at: str = "open"
    view: tuple[Row, ...] = ()
    doomed: tuple[tuple[Key, str], ...] = ()
    chosen: Key | None = None


class State(NamedTuple):
    log: tuple[Entry, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    drivers: tuple[Driver, ...] = ()
    stores: tuple[Store, ...] = ()
    next_run: int = 1
    twins_left: int = 0
    failures_left: int = 0

    def attempt(self, key: Key) -> Attempt | None:
        return next((attempt for attempt in self.attempts if attempt.key == key), None)

    def with_attempt(self, attempt: Attempt) -> State:
        others = [other for other in self.attempts if other.key != attempt.key]
        return self._replace(attempts=tuple(sorted([*others, attempt], key=lambda each: each.key)))

    def with_driver(self, driver: Driver) -> State:
        return self._replace(drivers=tuple(driver if each.run == driver.run else each for each in self.drivers))

    def without_driver(self, run: int, *, workers: bool) -> State:
        """Its workers may go on; what they had returned, or will, nobody takes."""
        attempts = [
            attempt._replace(at="") if attempt.key[0] == run and (workers or attempt.at == "returned") else attempt
            for attempt in self.attempts
        ]
        drivers = tuple(driver for driver in self.drivers if driver.run != run)
        return forgetting(self._replace(attempts=tuple(attempts), drivers=drivers))

    def done(self, view: tuple[Row, ...]) -> dict[int, Key]:
        """By chunk, what the rows name and what is there."""
        named = [row.names for row in view if row.kind is Kind.CHUNK and row.names is not None]
        there = {attempt.key for attempt in self.attempts if is_visible(attempt.sst)}
        return {key[1]: key for key in named if key in there}


Steps = Iterator[tuple[str, State]]


def forgetting(state: State) -> State:
    """Without attempts that have ended and that nobody can ever notice: no receipt to find, no row, no driver's eye."""
    noticed = {entry.row.names for entry in state.log}
    for driver in state.drivers:
        noticed |= {driver.chosen, *(row.names for row in driver.view)}
    kept = [each for each in state.attempts if each.at or each.key in noticed or is_visible(each.receipt)]
    if len(kept) == len(state.attempts):
        return state
    keys = {attempt.key for attempt in kept}
    drivers = [_spared(driver, keys) for driver in state.drivers]
    return state._replace(attempts=tuple(kept), drivers=tuple(drivers))


def _spared(driver: Driver, keys: set[Key]) -> Driver:
    """It still unlinks one file that is gone at least, so that it comes out of its loop."""
    doomed = tuple(file for number, file in enumerate(driver.doomed) if not number or file[0] in keys)
    return driver._replace(doomed=doomed)
