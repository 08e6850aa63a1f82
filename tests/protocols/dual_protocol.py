"""The dual-read store: a writer, a converger, a reader, an iterator, crashes, power cuts, the old code in between.

Three keys. In one database both families have one log; in two each has its own, and a power cut takes any unsynced end
of each. A dead process takes its memory with it, and nothing that it wrote.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from tests.protocols.dual_converger import ConvergerModel
from tests.protocols.dual_readers import ReadersModel
from tests.protocols.dual_state import (
    BAD,
    EMPTY,
    FOREIGN,
    VOID,
    Contents,
    Mutant,
    Session,
    State,
    Steps,
    changed,
    first_key,
    merged,
    nearer,
    voided,
)
from tests.protocols.dual_writer import Op, WriterModel

NOT_KEPT = "every key is what was written last"
NOT_AN_INSTANT = "after a power cut all is as at one instant since the last flush"
HIDDEN = "no old key is below the low-water mark"
NOT_EMPTY = "what is switched off is empty"
UNMARKED = "as long as old may hold a key, the mark is there"


@dataclass(frozen=True)
class Instance:
    """How much may happen, so that it ends."""

    shared: bool
    menu: tuple[Op, ...]
    ops: int = 2
    old: Contents = (0, 0, 0)
    new: Contents = EMPTY
    gets: tuple[int, ...] = ()
    scans: bool = False
    foreign: tuple[int, ...] = ()
    """What the old code may put, once, when it has its store back."""
    queue_holds: int = 2


class DualReadProtocol:
    """The model, as `explore` wants it."""

    def __init__(self, instance: Instance, mutant: Mutant | None = None) -> None:
        self._instance = instance
        self._mutant = mutant
        self._writer = WriterModel(instance.menu, instance.queue_holds, mutant)
        self._converger = ConvergerModel(mutant)
        self._readers = ReadersModel(instance.gets, instance.scans, mutant)
        self._found: dict[State, list[tuple[str, State]]] = {}
        """What power cuts leave of a disk, worked out once."""

    def initial(self) -> list[State]:
        at = self._instance
        spec = merged(at.new, at.old)
        return [
            State(
                shared=at.shared,
                new=(at.new,),
                old=(at.old,),
                spec=spec,
                since=frozenset({spec}),
                ops_left=at.ops,
                foreign_left=1 if at.foreign else 0,
            )
        ]

    def steps(self, state: State) -> Steps:
        for name, following in self._all_steps(state):
            yield name, _forgetting(following)

    def _all_steps(self, state: State) -> Steps:
        if state.session is None:
            yield from self._opening(state)
            if state.foreign_left:
                yield from (self._foreign(state, key) for key in self._instance.foreign)
        else:
            yield from self._readers.steps(state)
            yield from self._writer.steps(state)
            yield from self._converger.steps(state)
            yield from self._killed(state)
        dark = state._replace(session=None, peeked=None, spec=EMPTY)
        if dark not in self._found:
            self._found[dark] = [*_power_cuts(dark)]
        yield from self._found[dark]

    def _opening(self, state: State) -> Steps:
        """The database is locked before the mark is looked at; the new manifest voids it."""
        low = self._vouched(state)
        if self._mutant is not Mutant.MARK_READ_UNLOCKED:
            yield "opens", self.opened(state, low)
        elif state.peeked is None:
            yield "reads the mark", state._replace(peeked=low)
        else:
            yield "opens", self.opened(state._replace(peeked=None), state.peeked)

    def _vouched(self, state: State) -> int:
        mark = state.marks[-1]
        if mark is None or not mark.named:
            return 0
        lost = mark.ahead > len(state.old) - 1 and self._mutant is not Mutant.MARK_KEEPS_SEQUENCE
        return 0 if lost else mark.low

    def opened(self, state: State, low: int) -> State:
        """RocksDB writes what it recovers from a log to a synced file before it is open."""
        dirty = self._mutant is Mutant.OPENS_UNSYNCED
        off = first_key(state.old[-1], low) is None
        if not dirty:
            state = state.synced()
        if self._mutant is not Mutant.MARK_KEEPS_MANIFEST:
            state = state._replace(marks=voided(state.marks))
        if not off and self._mutant is not Mutant.NEVER_MARKED and (state.marks[-1] is None or None in state.marks):
            state = state._replace(marks=(VOID,))
        return state._replace(session=Session(low=low, cursor=low, old_dirty=dirty, off=off))

    def _foreign(self, state: State, key: int) -> tuple[str, State]:
        """The old code opens the old store, puts a key, and runs for longer than the kernel keeps anything unsynced."""
        ran = state.synced()
        ran = ran.wrote(old=changed(ran.old[-1], [(key, FOREIGN)])).synced()
        marks = ran.marks if self._mutant is Mutant.MARK_KEEPS_MANIFEST else voided(ran.marks)
        after = ran._replace(marks=marks[-1:], spec=ran.seen, since=frozenset({ran.seen}), foreign_left=0)
        return f"the old code puts {key}", after

    def _killed(self, state: State) -> Steps:
        if self._mutant is Mutant.LOG_OFF:
            for new, old in product({*state.new}, {*state.old}):
                killed = state._replace(new=(new,), old=(old,), session=None)
                yield "is killed, with what was not flushed", _as_found(killed)
        else:
            yield "is killed", state._replace(session=None)

    def broken(self, state: State) -> str | None:
        if state.wrong is not None:
            return state.wrong
        if state.seen != state.spec:
            return NOT_KEPT
        return None if state.session is None else _broken_in(state, state.session)

    def broken_by_step(self, before: State, after: State) -> str | None:
        return None

    def all_finish(self, states: Iterable[State]) -> bool:
        """Whether a last session whose converger nothing disturbs empties old, from wherever the others left it."""
        ends = {state._replace(session=None, ops_left=0, foreign_left=0) for state in states}
        good: set[State] = set()
        return all(self._ends_well(self.opened(state, self._vouched(state)), good) for state in ends)

    def _ends_well(self, state: State, good: set[State]) -> bool:
        way: dict[State, None] = {}
        following: State | None = state
        while following is not None and following not in good:
            state = following
            if state in way or self.broken(state) is not None:
                return False
            way[state] = None
            *_, following = [None, *(found for _, found in self._converger.steps(state))]
        good.update(way)
        return following is not None or is_converged(state) or self._holds_rejects_alone(state)

    def _holds_rejects_alone(self, state: State) -> bool:
        return not state.at_work.off and {*state.old[-1]} == {None, BAD} and BAD in state.spec


def is_converged(state: State) -> bool:
    return state.session is not None and state.session.off and state.old == (EMPTY,) and state.marks == (None,)


def _broken_in(state: State, session: Session) -> str | None:
    """In the middle of a call of converge the low-water mark is past what was moved, and is in old still."""
    below = [key for key in range(session.low) if state.old[-1][key] is not None]
    if below and (not session.converging or any(state.new[-1][key] is None for key in below)):
        return HIDDEN
    if session.off and first_key(state.old[-1]) is not None:
        return NOT_EMPTY
    if None in state.marks and any(first_key(old) is not None for old in state.old):
        return UNMARKED
    return None


def _power_cuts(dark: State) -> Steps:
    """Every disk that may be found when the power is back."""
    logs: Iterable[tuple[int, int]] = product(range(len(dark.new)), range(len(dark.old)))
    if dark.shared:
        logs = [(number, number) for number in range(len(dark.new))]
    for (new, old), mark in product(logs, range(len(dark.marks))):
        marks = nearer(dark.marks[mark : mark + 1], old)
        found = dark._replace(new=(dark.new[new],), old=(dark.old[old],), marks=marks)
        lost = f"{len(dark.new) - new - 1} writes of new, {len(dark.old) - old - 1} of old"
        marked = f"the mark is {found.marks[0]}" if len(dark.marks) > 1 else ""
        yield f"power cut: loses {lost}; sees {found.seen} {marked}", _as_found(found)


def _as_found(state: State) -> State:
    """What is there now is what it is, if it was so at some instant."""
    wrong = None if state.seen in state.since else NOT_AN_INSTANT
    return state._replace(spec=state.seen, since=frozenset({state.seen}), wrong=wrong)


def _forgetting(state: State) -> State:
    """Once all is durable, no earlier instant can come back."""
    if len(state.new) == len(state.old) == 1 and len(state.since) > 1:
        return state._replace(since=frozenset({state.spec}))
    return state
