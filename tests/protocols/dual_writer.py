"""The application's own operations on a dual-read store, each a list of steps between which a crash may come."""

from collections.abc import Callable

from tests.protocols.dual_state import Contents, Doing, Mark, Mutant, Session, State, Steps, changed, without

NOT_ACKNOWLEDGED = "what is acknowledged can be seen"
Op = tuple[str, tuple[int, ...]]
"""Its name, and the keys: put_all puts the first and deletes the second."""


class WriterModel:
    """One thread that writes; it holds the lock through all steps of an operation, but not while it flushes."""

    def __init__(self, menu: tuple[Op, ...], queue_holds: int, mutant: Mutant | None) -> None:
        self._menu = menu
        self._queue_holds = queue_holds
        self._mutant = mutant
        self._acts: dict[str, Callable[[State, Doing], State]] = {
            "write": self._write,
            "write new": lambda state, doing: state.wrote(new=changed(state.new[-1], doing.changes)),
            "move": self._move,
            "sync new": self._sync_new,
            "delete old": self._delete_old,
            "sync old": lambda state, _: state.synced_old().within(old_dirty=False),
            "drain": self._drain,
            "mark": self._mark,
            "close": lambda state, _: state,
        }

    def steps(self, state: State) -> Steps:
        session = state.at_work
        if session.writer is not None:
            yield self._act(state, session.writer)
            return
        for name, keys in self._menu if state.ops_left else ():
            doing = self._begun(state, name, keys)
            yield self._act(state._replace(ops_left=state.ops_left - 1), doing)
        if len(state.new) > 1 or session.queue:
            yield self._act(state, Doing("flush", self._flushing(state), locked=False))
        if not session.converging:
            yield self._act(state, Doing("close", (*self._flushing(state), "mark", "close"), locked=False))

    def _begun(self, state: State, name: str, keys: tuple[int, ...]) -> Doing:
        value = 10 - state.ops_left
        puts = keys if name in ("put", "put_if_absent") else keys[:1] if name == "put_all" else ()
        deletes = keys[len(puts) :]
        there = state.new[-1] if self._mutant is Mutant.ABSENT_ASKS_NEW else state.seen
        if name == "put_if_absent" and there[keys[0]] is not None:
            puts = ()
        right = name == "put_if_absent" and state.spec[keys[0]] is not None
        changes = (*((key, value) for key in puts), *((key, None) for key in deletes))
        goal = state.spec if right else changed(state.spec, changes)
        return Doing(f"{name} {keys}", self._plan(state, puts, deletes), changes, goal)

    def _plan(self, state: State, puts: tuple[int, ...], deletes: tuple[int, ...]) -> tuple[str, ...]:
        if self._mutant is Mutant.PUT_OLD_FIRST and puts:
            return ("delete old", "write")
        if state.shared or state.at_work.off:
            return ("write",)
        if self._in_old(state, deletes):
            return self._deleting(state, puts, deletes)
        replaced = {key for key in puts if state.old[-1][key] is not None and not _has_passed(state.at_work, key)}
        queued = state.at_work.queue | replaced
        return ("write", *self._draining()) if len(queued) >= self._queue_holds else ("write",)

    def _in_old(self, state: State, deletes: tuple[int, ...]) -> bool:
        dirty = state.at_work.old_dirty and self._mutant is not Mutant.DELETE_FORGETS_DIRTY
        if self._mutant is Mutant.DELETE_TRUSTS_CURSOR and all(key < state.at_work.cursor for key in deletes):
            return False
        return bool(deletes) and (dirty or any(state.old[-1][key] is not None for key in deletes))

    def _deleting(self, state: State, puts: tuple[int, ...], deletes: tuple[int, ...]) -> tuple[str, ...]:
        """What a batch deletes goes first to new, so that its one write there is all that can be seen of it."""
        plan = ["sync new", "delete old", "sync old", "write"]
        unmoved = any(state.new[-1][key] is None and state.old[-1][key] is not None for key in deletes)
        if puts and unmoved and self._mutant is not Mutant.BATCH_DELETES_OLD:
            plan.insert(0, "move")
        if self._mutant is Mutant.DELETE_NEW_FIRST:
            plan = ["write", *plan[:-1]]
        if self._mutant is Mutant.DELETE_OLD_UNSYNCED:
            plan.remove("sync old")
        if self._mutant is Mutant.DELETE_NEW_UNSYNCED:
            plan.remove("sync new")
        return tuple(plan)

    def _draining(self) -> tuple[str, ...]:
        return ("drain",) if self._mutant is Mutant.DRAIN_UNSYNCED else ("sync new", "drain")

    def _flushing(self, state: State) -> tuple[str, ...]:
        if self._mutant is Mutant.FLUSH_FORGETS and not state.at_work.queue:
            return ("drain",)
        return ("sync new",) if state.shared else self._draining()

    def _act(self, state: State, doing: Doing) -> tuple[str, State]:
        act, *left = doing.left
        following = self._acts[act](state.within(writer=doing), doing).settled()
        after = following.at_work.writer
        assert after is not None
        if left:
            following = following.within(writer=after._replace(left=tuple(left)))
        elif act == "close":
            following = following._replace(session=None)
        else:
            following = _acknowledged(following.within(writer=None), doing)
        return f"{doing.name}: {act}", following

    def _write(self, state: State, doing: Doing) -> State:
        """In one database the old copies go with it; in two, those of puts later and of deletes before.

        A put leaves out what the converger has passed, whose old copy is gone or about to go.
        """
        new, at_work = changed(state.new[-1], doing.changes), state.at_work
        keys = [key for key, value in doing.changes if value is None or not _has_passed(at_work, key)]
        if state.shared:
            return state.wrote(new=new, old=without(state.old[-1], keys))
        queued = {key for key in keys if state.old[-1][key] is not None}
        return state.wrote(new=new).within(queue=at_work.queue | queued)

    def _move(self, state: State, doing: Doing) -> State:
        new, old = state.new[-1], state.old[-1]
        moved = [(key, old[key]) for key, value in doing.changes if value is None and new[key] is None]
        return state.wrote(new=changed(new, moved))

    def _sync_new(self, state: State, doing: Doing) -> State:
        return state.synced_new().within(writer=doing._replace(batch=state.at_work.queue))

    def _delete_old(self, state: State, doing: Doing) -> State:
        keys = [key for key, value in doing.changes if value is None or self._mutant is Mutant.PUT_OLD_FIRST]
        return state.wrote(old=without(state.old[-1], keys)).within(
            old_dirty=True, queue=state.at_work.queue.difference(keys)
        )

    def _drain(self, state: State, doing: Doing) -> State:
        taken = state.at_work.queue if self._mutant in (Mutant.DRAIN_LATE, Mutant.DRAIN_UNSYNCED) else doing.batch
        if not taken:
            return state
        old: Contents = without(state.old[-1], taken)
        return state.wrote(old=old).within(old_dirty=True, queue=state.at_work.queue - taken)

    def _mark(self, state: State, _: Doing) -> State:
        """Not in the middle of a call: what was moved by it is in old still."""
        if state.at_work.off or state.at_work.converging:
            return state
        return state.marked(Mark(state.at_work.low, named=True, ahead=len(state.old) - 1))


def _has_passed(session: Session, key: int) -> bool:
    return key < session.cursor and key not in session.rejects


def _acknowledged(state: State, doing: Doing) -> State:
    if doing.name == "flush":
        return state._replace(since=frozenset({state.spec}))
    return state if doing.goal == state.spec else state._replace(wrong=NOT_ACKNOWLEDGED)
