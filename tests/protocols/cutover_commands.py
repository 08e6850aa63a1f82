"""The commands of the cut-over, step by step. Each looks where the stores stand and does what is missing."""

from collections.abc import Callable

from tests.protocols.cutover_state import NEW, OLD, At, Command, Lines, Move, Mutant, Places, Row, State, Steps

CUTOVER, ROLLBACK, FINALIZE = "cutover", "rollback", "finalize"
Step = Callable[[State], Steps]
_ALLOWED = {
    CUTOVER: {Row.VERIFIED, Row.CUTTING_OVER},
    ROLLBACK: {Row.CUTTING_OVER, Row.CUT_OVER, Row.ROLLING_BACK},
    FINALIZE: {Row.CUT_OVER, Row.FINALIZING},
}


class Commands:
    """What each command does, in order."""

    def __init__(
        self,
        journal: tuple[tuple[int, ...], tuple[int, ...]],
        before: Lines,
        mutant: Mutant | None,
        *,
        is_beside: bool = False,
    ) -> None:
        self._old, self._new = journal
        self._is_beside = is_beside
        self._before = before
        self._mutant = mutant
        lowered = tuple(min(pair) for pair in zip(before.stores, self._new, strict=True))
        first = self._new if mutant is Mutant.LINE_FIRST else lowered
        left = self._new if mutant is Mutant.LINE_LEFT else lowered
        moves = (_move_in, _move_out) if is_beside else (_exchange, _exchange_back)
        self._steps: dict[str, list[Step]] = {
            CUTOVER: [
                self._check_locks,
                self._sync_row,
                *self._row(Row.CUTTING_OVER),
                *self._side(first, during=CUTOVER),
                self._move("exchanges", moves[0]),
                self._sync_places,
                self._move("sets aside", _stay if is_beside else _set_aside),
                self._sync_places,
                *self._side(self._new),
                self._check_locks,
                *self._row(Row.CUT_OVER),
            ],
            ROLLBACK: [
                self._check_locks,
                self._sync_row,
                *self._row(Row.ROLLING_BACK),
                *self._side(left, during=ROLLBACK),
                self._move("brings back", _stay if is_beside else _bring_back),
                self._sync_places,
                self._move("exchanges back", moves[1]),
                self._sync_places,
                *self._side(before.stores),
                self._check_locks,
                *self._row(Row.ROLLED_BACK),
            ],
            FINALIZE: [self._sync_row, *self._row(Row.FINALIZING), self._delete, *self._row(Row.FINALIZED)],
        }

    def allowed(self, name: str, state: State) -> bool:
        """Whether the command begins at all."""
        rows = _ALLOWED[name]
        if name == FINALIZE and self._mutant is Mutant.FINALIZES_HALF:
            rows = rows | {Row.CUTTING_OVER}
        if name == ROLLBACK and self._mutant is Mutant.ROLLBACK_REFUSED:
            rows = rows - {Row.ROLLING_BACK}
        if name == CUTOVER and self._mutant is Mutant.RERUN_REFUSED:
            rows = rows if all(here[0] == OLD for here in state.seen) else set()
        return state.newest in rows and (name != CUTOVER or self.source_unchanged(state))

    def source_unchanged(self, state: State) -> bool:
        """A conversion of the snapshot is sound whatever the application wrote since: the changelog has it."""
        if any(new < old for new, old in zip(self._new, self._old, strict=True)):
            return True
        if self._is_beside:
            return state.old == self._old
        return all(here[0] == NEW or state.old[number] == self._old[number] for number, here in enumerate(state.seen))

    def steps(self, state: State, command: Command) -> Steps:
        for name, following in self._steps[command.name][command.at](state):
            ended = following.command is not None and following.command.at == len(self._steps[command.name])
            yield f"{command.name} {name}", following._replace(command=None, written=None) if ended else following

    def _check_locks(self, state: State) -> Steps:
        if state.application is not None:
            yield "is refused: the application holds its locks", state._replace(command=None)
        else:
            yield "finds no lock held", _next(state)

    def _sync_row(self, state: State) -> Steps:
        yield f"syncs the row {state.newest}", _next(state._replace(row=state.newest, fresh_row=None))

    def _row(self, row: Row) -> list[Step]:
        def commit(state: State) -> Steps:
            if state.newest is not row:
                yield f"commits the row {row}", _next(state._replace(fresh_row=row))
            elif self._mutant is Mutant.RERUN_SKIPS_LINES:
                yield f"finds the row {row}, and goes on to the exchange", _next(state, count=6)
            else:
                yield f"finds the row {row}", _next(state)

        if row is Row.CUTTING_OVER and self._mutant is Mutant.NO_INTENT:
            return []
        early = {Row.CUTTING_OVER: Mutant.INTENT_NOT_SYNCED, Row.FINALIZING: Mutant.FINALIZES_EARLY}
        return [commit] if self._mutant is not None and early.get(row) is self._mutant else [commit, self._sync_row]

    def _side(self, lines: tuple[int, ...], during: str | None = None) -> list[Step]:
        """A new side file for these stores, in the work_dir, renamed over the one in use."""
        left_out = {Mutant.SIDE_AFTER_EXCHANGE: CUTOVER, Mutant.SIDE_NOT_LOWERED_BACK: ROLLBACK}
        if self._mutant is not None and during is not None and left_out.get(self._mutant) == during:
            return []
        steps: list[Step] = [
            self._write_side(lines, lowered=during is not None),
            _sync_written,
            _rename_side,
            _sync_side,
        ]
        if self._mutant is Mutant.SIDE_NOT_SYNCED:
            steps.remove(_sync_written)
        if self._mutant is Mutant.SIDE_NAME_NOT_SYNCED:
            steps.remove(_sync_side)
        return steps

    def _write_side(self, lines: tuple[int, ...], *, lowered: bool) -> Step:
        def write(state: State) -> Steps:
            if lowered and self._mutant is Mutant.RERUN_TRUSTS_LINES and state.seen_side.stores == lines:
                yield "trusts the lines that it finds", _next(state, count=4)
                return
            foreign = self._before.foreign if self._mutant is Mutant.SIDE_WHOLE else state.seen_side.foreign
            written = Lines(lines, foreign, durable=False)
            littered = self._mutant is Mutant.SIDE_IN_PLACE
            yield f"writes the lines {lines}", _next(state._replace(written=written, littered=littered))

        return write

    def _move(self, name: str, moved: Callable[[Places], tuple[tuple[At, str | None], ...]]) -> Step:
        def move(state: State) -> Steps:
            assert state.command is not None
            for partition, here in enumerate(state.seen):
                places = self._misplaced(moved, here, partition in state.command.touched)
                if places:
                    following = state.with_pending(Move(partition, places))
                    yield f"{name} {partition}", self._touching(following, partition)
                    return
            touched = () if self._mutant is Mutant.RERUN_REPEATS else state.command.touched
            yield f"has no more to move: {name}", _next(state, touched=touched)

        return move

    def _misplaced(
        self, moved: Callable[[Places], tuple[tuple[At, str | None], ...]], here: Places, touched: bool
    ) -> tuple[tuple[At, str | None], ...]:
        """By identity, what is not yet where it should be."""
        if self._mutant is Mutant.TWO_RENAMES and moved is _exchange:
            return _two_renames(here)
        if self._mutant is Mutant.RERUN_REPEATS and moved is _exchange:
            return () if touched else ((At.LIVE, here[At.SLOT]), (At.SLOT, here[At.LIVE]))
        return moved(here)

    def _touching(self, state: State, partition: int) -> State:
        if self._mutant not in (Mutant.RERUN_REPEATS, Mutant.RERUN_SYNCS_ITS_OWN) or state.command is None:
            return state
        touched = tuple(sorted({*state.command.touched, partition}))
        return state._replace(command=state.command._replace(touched=touched))

    def _sync_places(self, state: State) -> Steps:
        assert state.command is not None
        if self._mutant is Mutant.RESULT_EARLY:
            yield "does not sync the places", _next(state)
            return
        left: tuple[Move | Lines, ...] = tuple(each for each in state.pending if isinstance(each, Lines))
        places = state.seen
        if self._mutant is Mutant.RERUN_SYNCS_ITS_OWN:
            mine = state.command.touched
            left = tuple(each for each in state.pending if isinstance(each, Lines) or each.partition not in mine)
            places = tuple(state.seen[each] if each in mine else state.places[each] for each in range(len(places)))
        yield "syncs the places", _next(state._replace(places=places, pending=left))

    def _delete(self, state: State) -> Steps:
        """What stands in a slot or among the old ones, bit by bit."""
        for partition, here in enumerate(state.seen):
            is_kept = self._is_beside and self._mutant is not Mutant.FREES_BESIDE
            for at in (At.SLOT,) if is_kept else (At.SLOT, At.OLD):
                if (store := here[at]) is None:
                    continue
                if (partition, store) not in state.torn:
                    yield f"deletes some of {store} {partition}", state._replace(torn=state.torn | {(partition, store)})
                else:
                    yield f"deletes the rest of {store} {partition}", _removed(state, partition, at)
                return
        yield "has deleted what was left", _next(state)


def _next(state: State, *, count: int = 1, touched: tuple[int, ...] | None = None) -> State:
    assert state.command is not None
    kept = state.command.touched if touched is None else touched
    return state._replace(command=state.command._replace(at=state.command.at + count, touched=kept))


def _sync_written(state: State) -> Steps:
    assert state.written is not None
    yield "syncs the written lines", _next(state._replace(written=state.written._replace(durable=True)))


def _rename_side(state: State) -> Steps:
    assert state.written is not None
    renamed = state.with_pending(state.written)._replace(written=None, littered=False)
    yield "renames the lines over", _next(renamed)


def _sync_side(state: State) -> Steps:
    pending = tuple(each for each in state.pending if isinstance(each, Move))
    yield "syncs the side file's directory", _next(state._replace(side=state.seen_side, pending=pending))


def _removed(state: State, partition: int, at: At) -> State:
    """At once for certain: what is half deleted is of no use to anybody."""
    places = [list(each) for each in state.seen]
    places[partition][at] = None
    left = tuple(each for each in state.pending if isinstance(each, Lines) or each.partition != partition)
    return state._replace(places=tuple((each[0], each[1], each[2]) for each in places), pending=left)


def _exchange(here: Places) -> tuple[tuple[At, str | None], ...]:
    return ((At.LIVE, NEW), (At.SLOT, OLD)) if here[:2] == (OLD, NEW) else ()


def _exchange_back(here: Places) -> tuple[tuple[At, str | None], ...]:
    return ((At.LIVE, OLD), (At.SLOT, NEW)) if here[:2] == (NEW, OLD) else ()


def _move_in(here: Places) -> tuple[tuple[At, str | None], ...]:
    return ((At.LIVE, NEW), (At.SLOT, None)) if here[:2] == (None, NEW) else ()


def _move_out(here: Places) -> tuple[tuple[At, str | None], ...]:
    return ((At.LIVE, None), (At.SLOT, NEW)) if here[:2] == (NEW, None) else ()


def _set_aside(here: Places) -> tuple[tuple[At, str | None], ...]:
    return ((At.SLOT, None), (At.OLD, OLD)) if here[At.SLOT] == OLD else ()


def _bring_back(here: Places) -> tuple[tuple[At, str | None], ...]:
    return ((At.SLOT, OLD), (At.OLD, None)) if here[At.OLD] == OLD else ()


def _stay(_: Places) -> tuple[tuple[At, str | None], ...]:
    return ()


def _two_renames(here: Places) -> tuple[tuple[At, str | None], ...]:
    if here[At.LIVE] == OLD:
        return ((At.LIVE, None), (At.OLD, OLD))
    return ((At.LIVE, NEW), (At.SLOT, None)) if here[At.LIVE] is None else ()
