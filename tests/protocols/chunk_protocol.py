"""The chunk protocol: attempts write files, drivers on two hosts commit them to one ledger, and anything may die.

What is synced survives a power cut, of the rest any part; a dead process takes nothing with it but itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from tests.protocols.chunk_driver import DriverModel
from tests.protocols.chunk_state import Attempt, Entry, Kind, Mutant, Row, State, Steps, Store, forgetting
from tests.protocols.disk import SYNCED, WRITTEN, File, Kept, after_cut, is_whole, unlinked

FINE = ("write", "sync", "receipt", "sync names", "return", "returned")
COARSE = ("write", "receipt", "sync names", "returned")
"""Until its receipt is there an attempt's file means nothing to anybody, durable or not."""
_LEFT_OUT = {
    Mutant.SST_NOT_SYNCED: {"sync"},
    Mutant.NAME_NOT_SYNCED: {"sync names"},
    Mutant.RECEIPT_FIRST: {"sync", "sync names"},
}


@dataclass(frozen=True)
class Instance:
    """How much may happen, so that it ends."""

    chunks: int = 2
    runs: int = 2
    drivers: int = 2
    """At the same time."""
    twins: int = 0
    failures: int = 0
    """Attempts that fail on their own and discard their files."""
    zombies: bool = False
    """Whether workers may outlive their driver."""
    stages: tuple[str, ...] = FINE
    forgotten: int = 0
    """Chunks of the source that the plan lacks, by whatever mistake."""


class ChunkProtocol:
    """The model, as `explore` wants it."""

    def __init__(self, instance: Instance, mutant: Mutant | None = None) -> None:
        self._instance = instance
        self._mutant = mutant
        self._drivers = DriverModel(instance.chunks, instance.chunks - instance.forgotten, mutant)
        self._found: dict[State, list[tuple[str, State]]] = {}
        """What power cuts leave of a disk, worked out once."""
        left_out = _LEFT_OUT.get(mutant, set()) if mutant is not None else set()
        stages = [stage for stage in instance.stages if stage not in left_out]
        self._after = dict(pairwise(stages))

    def initial(self) -> list[State]:
        return [State(twins_left=self._instance.twins, failures_left=self._instance.failures)]

    def steps(self, state: State) -> Steps:
        for attempt in state.attempts:
            yield from self._attempt_steps(state, attempt)
        for driver in state.drivers:
            yield from self._drivers.steps(state, driver)
            yield f"driver {driver.run} dies with its workers", state.without_driver(driver.run, workers=True)
            if self._instance.zombies:
                yield f"driver {driver.run} dies alone", state.without_driver(driver.run, workers=False)
        room = state.next_run <= self._instance.runs and len(state.drivers) < self._instance.drivers
        if room and not is_finished(state):
            yield f"driver {state.next_run} begins and reads the log", self._drivers.begun(state)
        dark = stopped(state)._replace(twins_left=state.twins_left, failures_left=state.failures_left)
        if dark not in self._found:
            self._found[dark] = [*_power_cuts(dark)]
        yield from self._found[dark]

    def _attempt_steps(self, state: State, attempt: Attempt) -> Steps:
        if (progress := self._progress(state, attempt)) is not None:
            yield f"attempt {attempt.key}: {attempt.at}", progress
            if state.failures_left:
                failed = attempt._replace(at="", sst=unlinked(attempt.sst), receipt=unlinked(attempt.receipt))
                following = state.with_attempt(failed)._replace(failures_left=state.failures_left - 1)
                yield f"attempt {attempt.key} fails, and discards its files", forgetting(following)

    def _progress(self, state: State, attempt: Attempt) -> State | None:
        if attempt.at in ("", "returned"):
            return None
        nobody_waits = attempt.key[0] not in {driver.run for driver in state.drivers}
        after = self._after[attempt.at]
        if after == "returned" and nobody_waits:
            after = ""
        moved = attempt._replace(at=after)
        if attempt.at == "write":
            moved = moved._replace(sst=SYNCED if self._instance.stages is COARSE else WRITTEN)
            state = self._overwriting(state, attempt)
        elif attempt.at == "receipt":
            moved = moved._replace(receipt=SYNCED)
        elif attempt.at == "sync names":
            moved = moved._replace(sst=_named(attempt.sst), receipt=_named(attempt.receipt))
        elif attempt.at == "sync" and attempt.sst is not None:
            moved = moved._replace(sst=attempt.sst._replace(data=Kept.DURABLE))
        following = state.with_attempt(moved)
        return following if after else forgetting(following)

    def _overwriting(self, state: State, attempt: Attempt) -> State:
        if self._mutant is Mutant.SHARED_NAME:
            for other in state.attempts:
                if other.key[1] == attempt.key[1] and other.sst is not None:
                    state = state.with_attempt(other._replace(sst=other.sst._replace(data=Kept.CACHED)))
        return state

    def broken(self, state: State) -> str | None:
        if any(entry.kept is Kept.TORN for entry in state.log[:-1]):
            return "the ledger can be read"
        last_run = 0
        chunks = []
        for row in (entry.row for entry in state.log if entry.kept is not Kept.TORN):
            if row.kind is Kind.RUN:
                last_run = row.run
            elif row.kind is not Kind.NOTHING and row.run != last_run:
                return "a driver that was fenced off commits nothing more"
            if row.kind is Kind.CHUNK and row.names is not None:
                found = state.attempt(row.names)
                chunks.append(row.names[1])
                if found is None or found.sst is None or not found.sst.is_durable:
                    return "a committed chunk's file is there, whole and durable"
            if row.kind in (Kind.ASSEMBLED, Kind.VERIFIED) and (wrong := self._wrong_store(state, row)) is not None:
                return wrong
        return None if len(chunks) == len({*chunks}) else "a chunk is committed once"

    def _wrong_store(self, state: State, row: Row) -> str | None:
        planned = self._instance.chunks - self._instance.forgotten
        right = tuple((chunk, True) for chunk in range(planned))
        if row.kind is Kind.VERIFIED:
            return "a verified store has every chunk of the source" if self._instance.forgotten else None
        is_there = any(store == Store(row.run, right, Kept.DURABLE) for store in state.stores)
        return None if is_there else "an assembled store is durable, with each chunk in it once, whole"

    def broken_by_step(self, before: State, after: State) -> str | None:
        for number, entry in enumerate(before.log if after.log is not before.log else ()):
            if entry.kept is Kept.DURABLE and (len(after.log) <= number or after.log[number] != entry):
                return "a row that was synced is never lost"
        return None

    def all_finish(self, states: Iterable[State]) -> bool:
        """Whether from each one a last driver that nothing disturbs gets it done, once everything else has stopped."""
        good: set[State] = set()
        for end in {stopped(state) for state in states}:
            way: dict[State, None] = {}
            state = end if is_finished(end) else self._drivers.begun(end)
            while state.drivers and state not in good:
                if state in way or self.broken(state) is not None:
                    return False
                way[state] = None
                state = self._calm_step(state)
            if state not in good and not is_finished(state):
                return False
            good.update(way)
        return True

    def _calm_step(self, state: State) -> State:
        moved = (self._progress(state, attempt) for attempt in state.attempts)
        following = next((found for found in moved if found is not None), None)
        return following or next(found for _, found in self._drivers.steps(state, state.drivers[0]))


def stopped(state: State) -> State:
    """The same disk with every process gone."""
    for driver in state.drivers:
        state = state.without_driver(driver.run, workers=True)
    dead = tuple(attempt._replace(at="") for attempt in state.attempts)
    return forgetting(state._replace(attempts=dead, twins_left=0, failures_left=0))


def is_finished(state: State) -> bool:
    return any(entry.row.kind is Kind.VERIFIED and entry.kept is Kept.DURABLE for entry in state.log)


def _named(file: File | None) -> File | None:
    """After its directory was synced."""
    if file is None or file.name is Kept.UNLINKED:
        return None
    return file._replace(name=Kept.DURABLE)


def _power_cuts(dark: State) -> Steps:
    """Every disk that may be found when the power is back."""
    files = product(*(product(after_cut(each.sst), after_cut(each.receipt)) for each in dark.attempts))
    stores = [store for store in dark.stores if _is_named(dark, store)]
    for log, kept, whole in product(_logs(dark.log), files, product(*(_stores(store) for store in stores))):
        attempts = tuple(
            each._replace(sst=sst, receipt=receipt if is_whole(receipt) else None)
            for each, (sst, receipt) in zip(dark.attempts, kept, strict=True)
        )
        found = dark._replace(log=log, attempts=attempts, stores=whole)
        yield f"power cut: {_told(dark, found)}", forgetting(found)


def _is_named(state: State, store: Store) -> bool:
    return any(entry.row.kind is Kind.ASSEMBLED and entry.row.run == store.run for entry in state.log)


def _stores(store: Store) -> list[Store]:
    kept = [Kept.DURABLE] if store.kept is Kept.DURABLE else [Kept.DURABLE, Kept.TORN]
    return [store._replace(kept=each) for each in kept]


def _logs(log: tuple[Entry, ...]) -> Iterator[tuple[Entry, ...]]:
    """A hole is as bad as a torn entry, unless it is the end."""
    for found in product(*(_entries(entry) for entry in log)):
        present = [*found]
        while present and present[-1] is None:
            present.pop()
        yield tuple(Entry(Row(Kind.NOTHING), Kept.TORN) if entry is None else entry for entry in present)


def _entries(entry: Entry) -> list[Entry | None]:
    if entry.kept is not Kept.CACHED:
        return [entry]
    outcomes: list[Entry | None] = [entry._replace(kept=Kept.DURABLE), entry._replace(kept=Kept.TORN)]
    return outcomes if entry.row.kind is Kind.NOTHING else [*outcomes, None]


def _told(before: State, found: State) -> str:
    torn = [str(number) for number, entry in enumerate(found.log) if entry.kept is Kept.TORN]
    lost = [str(each.key) for each, was in zip(found.attempts, before.attempts, strict=True) if each.sst != was.sst]
    return f"the log has {len(found.log)} of {len(before.log)}, torn: {torn}, files not as they were: {lost}"
