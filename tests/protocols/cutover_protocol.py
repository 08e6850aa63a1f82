"""The cut-over: two store partitions of a task that share a side file; cut over, rolled back or finalized.

A command may die between any two steps and be run again, the power may fail, and the application may run whenever no
command holds its locks. A rename or an exchange is one transaction of the file system; their order is not kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress, product

from tests.protocols.cutover_commands import CUTOVER, FINALIZE, ROLLBACK, Commands
from tests.protocols.cutover_state import (
    BEFORE,
    BESIDE,
    NEW,
    NO_LINE,
    OLD,
    TORN,
    At,
    Command,
    Lines,
    Move,
    Mutant,
    Places,
    Row,
    State,
    Steps,
)

_AHEAD = 3
"""Where the application brings a store that it runs on."""
_KEEPS_OLD = {*Row} - {Row.FINALIZING, Row.FINALIZED}


@dataclass(frozen=True)
class Instance:
    """Positions in the changelog at the time of the cut-over, by store partition."""

    old: tuple[int, ...] = (2, 2)
    new: tuple[int, ...] = (2, 2)
    """Lower than the old store's where a snapshot was converted."""
    lines: tuple[int, ...] = (2, 2)
    """In the side file."""
    runs: int = 2
    """How often the application runs in between."""
    is_beside: bool = False
    """Whether the new stores have names of their own; `lines` are theirs then."""

    @property
    def before(self) -> Places:
        return BESIDE if self.is_beside else BEFORE

    @property
    def gone_back(self) -> str | None:
        """What is in the place of the new store after a rollback."""
        return self.before[0]


class CutOverProtocol:
    """The model, as `explore` wants it."""

    def __init__(self, instance: Instance, mutant: Mutant | None = None) -> None:
        self._instance = instance
        self._mutant = mutant
        self._before = Lines(instance.lines, foreign=5)
        self._commands = Commands((instance.old, instance.new), self._before, mutant, is_beside=instance.is_beside)

    def initial(self) -> list[State]:
        at = self._instance
        places = (at.before,) * len(at.old)
        return [State(places, self._before, at.old, at.new, foreign=5, runs_left=at.runs)]

    def steps(self, state: State) -> Steps:
        if state.command is not None:
            yield from self._commands.steps(state, state.command)
            yield f"{state.command.name} is killed", _killed(state)
        else:
            for name in (CUTOVER, ROLLBACK, FINALIZE):
                if self._commands.allowed(name, state):
                    yield f"{name} begins", state._replace(command=Command(name))
        yield from self._application_steps(state)
        yield from _power_cuts(state)

    def _application_steps(self, state: State) -> Steps:
        """It may run whenever no command holds its locks; before the cut-over its writes are the migration's affair."""
        if state.application is not None:
            yield "the application closes", self._closed(state)
        elif state.runs_left and state.newest is not Row.VERIFIED:
            opened = tuple(here[0] or here[At.OLD] for here in state.seen)
            started = state._replace(application=opened, runs_left=state.runs_left - 1)
            if self._mutant is Mutant.LOCKS_PROBED:
                yield "the application opens its stores", started
            elif state.command is None:
                yield "the application runs", self._closed(started)
                yield "the application runs, and is killed before it writes its lines", _advanced(started)

    def broken(self, state: State) -> str | None:
        if state.seen_side.foreign == TORN.foreign:
            return "the side file is whole"
        if state.seen_side.foreign != state.foreign:
            return "another store's line is as the application left it"
        if state.littered:
            return "nothing foreign stands in the application's directory"
        badly = (self._badly_placed(state, partition) for partition in range(len(state.places)))
        return next((invariant for invariant in badly if invariant), None) or self._against_the_row(state)

    def _against_the_row(self, state: State) -> str | None:
        live = {here[0] for here in state.seen}
        if state.row is Row.VERIFIED and any(here != self._instance.before for here in state.seen):
            return "what is moved is in the ledger first"
        if state.newest in (Row.CUT_OVER, Row.FINALIZING, Row.FINALIZED) and live != {NEW}:
            return "once it is cut over, every new store is live"
        if state.newest is Row.ROLLED_BACK and live != {self._instance.gone_back}:
            return "once it is rolled back, every old store is live"
        return None

    def broken_by_step(self, before: State, after: State) -> str | None:
        if before.row is Row.FINALIZING and after.row not in (Row.FINALIZING, Row.FINALIZED):
            return "what is being finalized is not rolled back"
        return None

    def all_finish(self, states: Iterable[State]) -> bool:
        """Whether whatever was interrupted ends well when its command, or the way back, is run again in peace."""
        good: set[tuple[str, State]] = set()
        ends = {_killed(state)._replace(application=None, runs_left=0) for state in states}
        return all(self._can_go_on(state) for state in ends) and all(
            self._ends_well(state, name, good)
            for state in ends
            for name in (CUTOVER, ROLLBACK, FINALIZE)
            if self._commands.allowed(name, state)
        )

    def _can_go_on(self, state: State) -> bool:
        """There is a way back until it is finalized, and the way on unless the application changed an old store."""
        ways = {
            Row.CUTTING_OVER: {ROLLBACK, *([CUTOVER] if self._commands.source_unchanged(state) else [])},
            Row.CUT_OVER: {ROLLBACK, FINALIZE},
            Row.ROLLING_BACK: {ROLLBACK},
            Row.FINALIZING: {FINALIZE},
        }
        return all(self._commands.allowed(name, state) for name in ways.get(state.newest, ()))

    def _ends_well(self, state: State, name: str, good: set[tuple[str, State]]) -> bool:
        state = state._replace(command=Command(name))
        way: list[tuple[str, State]] = []
        while state.command is not None:
            if (name, state) in good:
                good.update(way)
                return True
            way.append((name, state))
            ((_, state),) = self._commands.steps(state, state.command)
            if self.broken(state) is not None:
                return False
        live, lines, row = {
            CUTOVER: (NEW, self._instance.new, Row.CUT_OVER),
            ROLLBACK: (self._instance.gone_back, self._instance.lines, Row.ROLLED_BACK),
            FINALIZE: (NEW, state.side.stores, Row.FINALIZED),
        }[name]
        good.update(way)
        return (
            {here[0] for here in state.seen} == {live}
            and (state.side.stores, state.row) == (lines, row)
            and not state.pending
        )

    def _badly_placed(self, state: State, partition: int) -> str | None:
        here = state.seen[partition]
        if self._instance.is_beside and (here[At.OLD] != OLD or (partition, OLD) in state.torn):
            return "an old store that nothing takes the place of stays"
        opened = here[0] or here[At.OLD]
        if opened is None or (not self._instance.is_beside and here[0] is None) or (partition, opened) in state.torn:
            return "a whole store stands live"
        if state.seen_side.stores[partition] > state.position(partition, here[0]):
            return "a line never names more than the live store has"
        if state.row in _KEEPS_OLD and any((partition, store) in state.torn for store in here):
            return "nothing is deleted before the row that says so is durable"
        if state.row in _KEEPS_OLD and sorted(here, key=str) != [None, NEW, OLD]:
            return "old and new store each stand somewhere, once"
        return None

    def _closed(self, state: State) -> State:
        """As `_advanced`, and the side file says so, with another store's line moved too.

        A version that does not know a store writes no line for it.
        """
        assert state.application is not None
        unknown = OLD if self._instance.is_beside else None
        found = tuple(NO_LINE if store == unknown else _AHEAD for store in state.application)
        lines = Lines(found, state.foreign + 1)
        pending = tuple(each for each in state.pending if isinstance(each, Move))
        return _advanced(state._replace(side=lines, pending=pending, foreign=lines.foreign))


def is_rolled_back(state: State) -> bool:
    return state.row is Row.ROLLED_BACK and state.command is None


def is_finalized(state: State) -> bool:
    return state.row is Row.FINALIZED and {here for here in state.places} <= {(NEW, None, None), (NEW, None, OLD)}


def _killed(state: State) -> State:
    """Without its process; what it had not synced may still be synced by somebody."""
    return state._replace(command=None, written=None, littered=False)


def _advanced(state: State) -> State:
    """The opened stores have more records. A run lasts longer than the kernel keeps anything unsynced."""
    assert state.application is not None
    old = [_AHEAD if store == OLD else at for store, at in zip(state.application, state.old, strict=True)]
    new = [_AHEAD if store == NEW else at for store, at in zip(state.application, state.new, strict=True)]
    ran = state._replace(old=tuple(old), new=tuple(new), application=None)
    return ran if state.command else ran._replace(places=state.seen, side=state.seen_side, pending=())


def _power_cuts(state: State) -> Steps:
    """Every disk that may be found when the power is back."""
    dark = _killed(state)._replace(application=None, pending=(), fresh_row=None)
    for kept in product((True, False), repeat=len(state.pending)):
        survived = [*compress(state.pending, kept)]
        moved = state._replace(pending=tuple(survived))
        for side, row in product(_sides(moved.seen_side), {state.newest, state.row}):
            lost = len(state.pending) - len(survived)
            found = dark._replace(places=moved.seen, side=side, row=row)
            yield f"power cut: {lost} of {len(state.pending)} moves lost, the row is {row}", found


def _sides(side: Lines) -> Iterator[Lines]:
    yield side._replace(durable=True)
    if not side.durable:
        yield TORN
