"""A driver of the chunk protocol, step by step.

It reads the ledger once, as it opens it, and goes by that view ever after; only put-if-absent of the next log entry
ties it to what others did meanwhile.
"""

from collections.abc import Callable

from tests.protocols.chunk_state import (
    LINKED,
    Attempt,
    Driver,
    Entry,
    Key,
    Kind,
    Mutant,
    Row,
    State,
    Steps,
    Store,
    forgetting,
)
from tests.protocols.disk import DURABLE, File, Kept, is_visible, is_whole, unlinked

DriverSteps = Callable[[State, Driver], Steps]


class DriverModel:
    """What a driver may do next, by where it stands."""

    def __init__(self, chunks: int, planned: int, mutant: Mutant | None) -> None:
        self._whole = range(chunks)
        self._chunks = range(planned)
        self._mutant = mutant
        first = "list" if mutant is Mutant.COLLECTS_BEFORE_RUN else "begin"
        opened = first if mutant is Mutant.OPENED_UNSYNCED else "sync newest"
        self._at: dict[str, DriverSteps] = {
            "open": lambda state, driver: self._open(state, driver, then=opened),
            "repair": self._repair,
            "sync newest": self._syncing(then=first),
            "begin": lambda state, driver: self._commit(state, driver, Row(Kind.RUN, driver.run), then="sync run"),
            "sync run": self._syncing(then="adopt"),
            "adopt": self._adopt,
            "sync link": self._sync_link,
            "commit adopted": self._commit_adopted,
            "sync adopted": self._syncing(then="adopt"),
            "list": self._list,
            "collect": self._collect,
            "work": self._work,
            "sync chunk": self._syncing(then="work"),
            "sync store": self._sync_store,
            "commit store": self._commit_store,
            "sync assembled": self._syncing(then="verify"),
            "verify": self._verify,
            "sync verified": self._syncing(then="done"),
        }

    def begun(self, state: State) -> State:
        """With one more driver, which has read the ledger; before that it is nobody's business."""
        driver = Driver(state.next_run)
        more = state._replace(drivers=(*state.drivers, driver), next_run=state.next_run + 1)
        ((_, opened),) = self._at["open"](more, driver)
        return opened

    def steps(self, state: State, driver: Driver) -> Steps:
        for name, following in self._at[driver.at](state, driver):
            yield f"driver {driver.run} {name}", following

    def _commit(self, state: State, driver: Driver, row: Row, *, then: str) -> Steps:
        """Put-if-absent of the log version after the last one that the driver knows."""
        if self._mutant is Mutant.NO_FENCING:
            state, driver = _rebased(state, driver)
        if len(state.log) != len(driver.view):
            yield "is fenced off, and stops", state.without_driver(driver.run, workers=False)
            return
        committed = state._replace(log=(*state.log, Entry(row)))
        yield (
            f"commits {row.kind} {row.names or ''}",
            committed.with_driver(driver._replace(at=then, view=(*driver.view, row), chosen=None)),
        )

    def _syncing(self, *, then: str) -> DriverSteps:
        def sync(state: State, driver: Driver) -> Steps:
            following = state.with_driver(driver._replace(at=then))
            if self._mutant is not Mutant.ROW_NOT_SYNCED:
                known = len(driver.view)
                synced = [_synced(entry) if number < known else entry for number, entry in enumerate(state.log)]
                following = following._replace(log=tuple(synced))
            if then == "done":
                yield "syncs the log, and is done", following.without_driver(driver.run, workers=False)
            else:
                yield "syncs the log", following

        return sync

    def _open(self, state: State, driver: Driver, *, then: str) -> Steps:
        torn = bool(state.log) and state.log[-1].kept is Kept.TORN
        view = tuple(entry.row for entry in (state.log[:-1] if torn else state.log))
        if any(row.kind is Kind.VERIFIED for row in view):
            then = "sync verified"
        yield "reads the log", state.with_driver(driver._replace(at="repair" if torn else then, view=view))

    def _repair(self, state: State, driver: Driver) -> Steps:
        """An entry that says nothing is renamed over the torn one: who comes late to do the same changes nothing."""
        if self._mutant is Mutant.REFUSES_TORN_ENTRY:
            yield "refuses the ledger", state.without_driver(driver.run, workers=False)
            return
        again = state.with_driver(driver._replace(at="open", view=()))
        number = len(driver.view)
        log = list(state.log)
        if self._mutant is Mutant.DROPS_TORN_ENTRY:
            yield "unlinks the torn entry", again._replace(log=(*log[:number], *log[number + 1 :]))
            return
        if log[number].row.kind is not Kind.NOTHING or log[number].kept is Kept.TORN:
            log[number] = Entry(Row(Kind.NOTHING))
        yield "replaces the torn entry", again._replace(log=tuple(log))

    def _adopt(self, state: State, driver: Driver) -> Steps:
        """What an older run finished but did not get to commit, or what a torn entry had named."""
        if any(row.kind is Kind.ASSEMBLED for row in driver.view):
            yield "finds an assembled store", state.with_driver(driver._replace(at="verify"))
            return
        done, older = state.done(driver.view), self._older(driver)
        found = [each for each in state.attempts if each.key[0] in older and each.key[1] not in done]
        whole = [each for each in found if is_whole(each.receipt) and is_whole(each.sst)]
        if not whole:
            collected = self._mutant is Mutant.COLLECTS_BEFORE_RUN
            yield "finds nothing to adopt", state.with_driver(driver._replace(at="work" if collected else "list"))
            return
        if self._mutant is Mutant.ADOPTS_IN_PLACE:
            yield "chooses a receipt", state.with_driver(driver._replace(at="commit adopted", chosen=whole[0].key))
            return
        assert whole[0].sst is not None
        link = Attempt((driver.run, whole[0].key[1], LINKED), at="", sst=File(whole[0].sst.data, Kept.CACHED))
        chosen = state.with_driver(driver._replace(at="sync link", chosen=link.key))
        yield f"links the files of {whole[0].key}", chosen.with_attempt(link)

    def _sync_link(self, state: State, driver: Driver) -> Steps:
        link = self._chosen(state, driver)
        assert link.sst is not None
        synced = state.with_attempt(link._replace(sst=link.sst._replace(name=Kept.DURABLE)))
        yield "syncs the link's directory", synced.with_driver(driver._replace(at="commit adopted"))

    def _commit_adopted(self, state: State, driver: Driver) -> Steps:
        return self._commit(state, driver, Row(Kind.CHUNK, driver.run, driver.chosen), then="sync adopted")

    def _list(self, state: State, driver: Driver) -> Steps:
        """Files of older runs that no row names."""
        named, older = {row.names for row in driver.view}, self._older(driver)
        orphans = [
            each
            for each in state.attempts
            if each.key not in named
            and each.key[0] != driver.run
            and (each.key[0] in older or self._mutant is Mutant.COLLECTS_ANY)
        ]
        doomed = [(each.key, "sst") for each in orphans if is_visible(each.sst)]
        doomed += [(each.key, "receipt") for each in orphans if is_visible(each.receipt)]
        yield f"lists {len(doomed)} orphans", self._collecting(state, driver, tuple(sorted(doomed)))

    def _collecting(self, state: State, driver: Driver, doomed: tuple[tuple[Key, str], ...]) -> State:
        then = "begin" if self._mutant is Mutant.COLLECTS_BEFORE_RUN else "work"
        return state.with_driver(driver._replace(at="collect" if doomed else then, doomed=doomed))

    def _collect(self, state: State, driver: Driver) -> Steps:
        (key, which), *rest = driver.doomed
        following = self._collecting(state, driver, tuple(rest))
        if (orphan := state.attempt(key)) is not None:
            file = unlinked(orphan.sst if which == "sst" else orphan.receipt)
            gone = orphan._replace(sst=file) if which == "sst" else orphan._replace(receipt=file)
            following = following.with_attempt(gone)
        yield f"unlinks the {which} of {key}", forgetting(following)

    def _work(self, state: State, driver: Driver) -> Steps:
        done = state.done(driver.view)
        mine = [each for each in state.attempts if each.key[0] == driver.run and each.at]
        for each in mine:
            if each.at == "returned":
                taken = state.with_attempt(each._replace(at=""))
                if each.key[1] in done:
                    yield f"refuses the late {each.key}", forgetting(taken)
                else:
                    yield from self._commit(taken, driver, Row(Kind.CHUNK, driver.run, each.key), then="sync chunk")
        pending = [chunk for chunk in self._chunks if chunk not in done]
        waiting = [chunk for chunk in pending if chunk not in {each.key[1] for each in mine}]
        if waiting:
            yield f"starts chunk {waiting[0]}", state.with_attempt(_fresh(state, driver.run, waiting[0]))
        if not pending or (done and self._mutant is Mutant.ASSEMBLES_EARLY):
            yield "assembles", self._assemble(state, driver, done)
        if state.twins_left:
            for chunk in {each.key[1] for each in mine} - {*done}:
                twin = _fresh(state, driver.run, chunk)
                yield f"starts a twin {twin.key}", state.with_attempt(twin)._replace(twins_left=state.twins_left - 1)

    def _assemble(self, state: State, driver: Driver, done: dict[int, Key]) -> State:
        whole = {each.key: each.sst == DURABLE for each in state.attempts}
        store = Store(driver.run, tuple((chunk, whole[key]) for chunk, key in sorted(done.items())))
        then = "commit store" if self._mutant is Mutant.STORE_NOT_SYNCED else "sync store"
        return state._replace(stores=(*state.stores, store)).with_driver(driver._replace(at=then))

    def _sync_store(self, state: State, driver: Driver) -> Steps:
        stores = [store._replace(kept=Kept.DURABLE) if store.run == driver.run else store for store in state.stores]
        following = state.with_driver(driver._replace(at="commit store"))
        yield "syncs the store", following._replace(stores=tuple(stores))

    def _commit_store(self, state: State, driver: Driver) -> Steps:
        return self._commit(state, driver, Row(Kind.ASSEMBLED, driver.run), then="sync assembled")

    def _verify(self, state: State, driver: Driver) -> Steps:
        """Against the source, whatever was planned."""
        wanted = self._chunks if self._mutant is Mutant.VERIFIES_AS_PLANNED else self._whole
        run = next(row.run for row in reversed(driver.view) if row.kind is Kind.ASSEMBLED)
        (store,) = (store for store in state.stores if store.run == run)
        if [chunk for chunk, _ in store.chunks] == [*wanted]:
            yield from self._commit(state, driver, Row(Kind.VERIFIED, driver.run), then="sync verified")
        else:
            yield "finds a mismatch, and stops", state.without_driver(driver.run, workers=False)

    def _older(self, driver: Driver) -> set[int]:
        return {row.run for row in driver.view if row.kind is Kind.RUN} - {driver.run}

    def _chosen(self, state: State, driver: Driver) -> Attempt:
        assert driver.chosen is not None
        found = state.attempt(driver.chosen)
        assert found is not None
        return found


def _rebased(state: State, driver: Driver) -> tuple[State, Driver]:
    """As if the driver had read, and synced, whatever others committed meanwhile."""
    log = tuple(_synced(entry) for entry in state.log)
    return state._replace(log=log), driver._replace(view=tuple(entry.row for entry in log))


def _synced(entry: Entry) -> Entry:
    return entry._replace(kept=Kept.DURABLE) if entry.kept is Kept.CACHED else entry


def _fresh(state: State, run: int, chunk: int) -> Attempt:
    taken = {each.key for each in state.attempts}
    name = next(number for number in range(LINKED) if (run, chunk, number) not in taken)
    return Attempt((run, chunk, name), at="write")
