"""The thread that converges a dual-read store: slices of one key, the end of a call, the switch-off."""

from collections.abc import Callable

from tests.protocols.dual_state import BAD, EMPTY, Mark, Mutant, Session, State, Steps, changed, first_key, without


class ConvergerModel:
    """What it may do next. It holds the lock for one step at a time."""

    def __init__(self, mutant: Mutant | None) -> None:
        self._mutant = mutant
        self._at: dict[str, Callable[[State], Steps]] = {
            "": self._idle,
            "slice": self._in_call,
            "write": self._write_held,
            "clear": self._clear,
            "mark": self._mark,
            "sync": self._sync,
            "drop": self._drop,
            "off": self._off,
        }

    def steps(self, state: State) -> Steps:
        for name, following in self._at[state.at_work.converging](state):
            yield f"converge: {name}", following

    def _idle(self, state: State) -> Steps:
        """No old key from the low-water mark on: nothing to do but to say so, for good."""
        session = state.at_work
        if session.off:
            yield from _unmark(state.synced_old() if self._mutant is Mutant.OFF_UNSYNCED else state)
        elif session.locked:
            return
        elif first_key(state.old[-1], self._seeks_from(session)) is None:
            yield from self._finishing(state)
        elif first_key(state.old[-1], session.cursor) is not None:
            yield from self._slice(state)
        elif session.queue:
            yield from self._end(state)

    def _seeks_from(self, session: Session) -> int:
        return session.cursor if self._mutant is Mutant.OFF_AT_CURSOR else session.low

    def _in_call(self, state: State) -> Steps:
        if first_key(state.old[-1], state.at_work.cursor) is not None and not state.at_work.locked:
            yield from self._slice(state)
        yield from self._end(state)

    def _slice(self, state: State) -> Steps:
        """The next old key goes to new, unless new has it; in one database it leaves old in the same batch."""
        key = first_key(state.old[-1], state.at_work.cursor)
        assert key is not None
        value = state.old[-1][key]
        session = state.at_work
        following = state.within(cursor=key + 1, converging="slice")
        has = state.new[-1][key] is not None and self._mutant is not Mutant.CONVERGE_OVERWRITES
        if has:
            value = state.new[-1][key]
        stays = has and self._mutant is Mutant.CONVERGE_KEEPS_LEFTOVERS
        if (value == BAD and not has) or stays:
            yield f"leaves {key}", self._lowered(following.within(rejects=session.rejects | {key}))
            return
        if self._mutant is Mutant.CONVERGE_OUTSIDE_LOCK and not has:
            assert value is not None
            yield f"reads {key}", following.within(converging="write", moved=((key, value),))
            return
        old = without(state.old[-1], [key]) if state.shared else None
        yield f"moves {key}", self._lowered(following.wrote(new=changed(state.new[-1], [(key, value)]), old=old))

    def _write_held(self, state: State) -> Steps:
        if state.at_work.locked:
            return
        old = without(state.old[-1], [key for key, _ in state.at_work.moved]) if state.shared else None
        following = state.wrote(new=changed(state.new[-1], state.at_work.moved), old=old)
        yield "writes what it read", self._lowered(following.within(converging="slice", moved=()))

    def _end(self, state: State) -> Steps:
        """New is synced without the lock: what was moved by now is what may leave old."""
        if state.shared:
            yield from self._mark(state)
        elif self._mutant is Mutant.CONVERGE_UNSYNCED:
            yield "goes on unsynced", state.within(converging="clear")
        elif self._mutant is Mutant.MARK_EARLY:
            early = state.marked(Mark(state.at_work.cursor, named=True, ahead=len(state.old) - 1))
            yield "writes the mark, syncs new", early.synced_new().within(converging="clear")
        else:
            yield "syncs new", state.synced_new().within(converging="clear", batch=state.at_work.queue)

    def _clear(self, state: State) -> Steps:
        """One range of old, up to the cursor, without rejects; and what was queued before new was synced."""
        session = state.at_work
        if session.locked:
            return
        kept = () if self._mutant is Mutant.REJECTS_CLEARED else session.rejects
        gone = {*(key for key in range(session.cursor) if key not in kept), *session.batch}
        following = state.wrote(old=without(state.old[-1], gone))
        yield (
            "clears old",
            self._lowered(
                following.within(
                    old_dirty=True,
                    queue=session.queue.difference(gone),
                    rejects=frozenset(key for key in session.rejects if following.old[-1][key] is not None),
                    batch=frozenset(),
                    converging="" if self._mutant is Mutant.MARK_EARLY else "mark",
                )
            ),
        )

    def _lowered(self, state: State) -> State:
        """With the low-water mark past what was moved: from there on there is all that is old and not new as well."""
        session = state.at_work
        stays = session.rejects if self._mutant is not Mutant.LOW_PASSES_REJECTS else ()
        return state.within(low=min([session.cursor, *stays]))

    def _mark(self, state: State) -> Steps:
        mark = Mark(state.at_work.low, named=True, ahead=len(state.old) - 1)
        yield "writes the mark", state.marked(mark).within(converging="")

    def _finishing(self, state: State) -> Steps:
        if self._mutant is Mutant.UNMARKED_FIRST and state.marks != (None,):
            yield from _unmark(state)
        elif self._mutant is Mutant.OFF_UNSYNCED:
            yield from self._off(state)
        elif self._mutant is Mutant.DROPS_UNSYNCED and state.shared:
            yield from self._drop(state)
        else:
            yield from self._sync(state)

    def _sync(self, state: State) -> Steps:
        """A dropped family is gone at once, whatever becomes of the log; and an emptied store may be full again."""
        yield (
            "syncs what emptied old",
            state.synced_old().within(old_dirty=False, converging="drop" if state.shared else "off"),
        )

    def _drop(self, state: State) -> Steps:
        yield "drops the old family", state._replace(old=(EMPTY,) * len(state.old)).within(converging="off")

    def _off(self, state: State) -> Steps:
        if not state.at_work.locked:
            yield "switches off", state.within(off=True, queue=frozenset(), converging="")


def _unmark(state: State) -> Steps:
    if state.marks[-1] is not None:
        yield "unlinks the mark", state.marked(None)
    elif len(state.marks) > 1:
        yield "syncs the mark's directory", state._replace(marks=(None,))
