"""`stateferry.json` in both directories of a dual-read store: when it is trusted, and when the caller is asked.

Two keys, which sessions move one after the other. A session is killed between any two steps, an opening too. The old
directory is copied at any time, and put back while it is closed; the old code opens it, and writes to it. Manifests and
sequence numbers go on from where each copy is, so that two lines of one store have the same numbers.

One thing is beyond the protocol: a copy that was made since the last mark, with nobody's writes but the adapter's.

Left out: power cuts and the order of records (dual_protocol), the removal of the files, a new directory that goes back.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

HIDDEN = "no old key is below a cursor that is in force"
NOT_ASKED = "the caller is asked where old is not as the adapter left it"
ASKED_IN_VAIN = "the caller is asked only where old was replaced, or opened by others"


class Mutant(StrEnum):
    """The protocol with one thing wrong."""

    MANIFEST_ALONE = "a cursor is trusted by its manifest and sequence number alone, whichever directory has it"
    MANIFEST_IGNORED = "a cursor is trusted by its token alone"
    TOKEN_KEPT = "the token is that of the first session for ever"
    NEW_FIRST = "the new directory has the token first"
    ANSWER_OLD_FIRST = "the old directory has the token first after the caller was asked, too"
    NO_PREVIOUS = "the old directory does not say which token the new one has"
    NOT_NOTED = "an opening does not note the sequence number that a killed session came to"


class Mark(NamedTuple):
    """What the file says."""

    token: int
    previous: int | None
    manifest: int
    sequence: int
    low: int
    at_rest: bool
    number: int
    """Of this writing. Only the model knows."""


class Old(NamedTuple):
    """The old directory."""

    keys: tuple[int, ...] = (0, 1)
    manifest: int = 0
    sequence: int = 0
    mark: Mark | None = None
    is_opened: bool = False
    """By the old code, and the adapter has not opened it since. Only the model knows."""
    is_foreign: bool = False
    """The old code has written to it, and nobody has been asked since. Only the model knows."""


class Session(NamedTuple):
    """What a process has in memory."""

    at: str
    low: int = 0
    token: int | None = 0
    """In the new directory; None: the caller was asked, and no earlier copy of old may belong to it any more."""
    pending: Mark | None = None
    """The mark that one directory has already, or none."""


class State(NamedTuple):
    """Both directories, a copy of the old one, and how much may still happen."""

    old: Old = Old()
    new: Mark | None = None
    """The file in the new directory; None: announced, nothing was moved."""
    is_written: bool = False
    """Something was moved to the new store."""
    copy: Old | None = None
    left: tuple[int, ...] = (0, 1)
    """The old keys, as the adapter left them."""
    is_replaced: bool = False
    session: Session | None = None
    writings: int = 0
    openings: int = 3
    foreign: int = 1
    marks: int = 1
    """Beside those of an opening and a close."""
    wrong: str | None = None


Steps = Iterator[tuple[str, State]]


class MarksProtocol:
    """The model, as `explore` wants it."""

    def __init__(self, begin: State, mutant: Mutant | None = None) -> None:
        self._begin = begin
        self._mutant = mutant

    def initial(self) -> list[State]:
        return [self._begin]

    def broken(self, state: State) -> str | None:
        return state.wrong

    def broken_by_step(self, before: State, after: State) -> str | None:
        return None

    def steps(self, state: State) -> Steps:
        session = state.session
        if session is None:
            if state.openings:
                yield "begins to open", self._noted(state)
            yield from _others(state)
        else:
            yield "is killed", state._replace(session=None)
            yield from self._at(state, session)
        if state.copy is None:
            yield "copies old", state._replace(copy=state.old)

    def _noted(self, state: State) -> State:
        """Durable before the opening makes a new manifest."""
        old, mark = state.old, state.old.mark
        is_noted = mark is not None and not mark.at_rest and mark.manifest == old.manifest
        if mark is not None and is_noted and self._mutant is not Mutant.NOT_NOTED:
            old = old._replace(mark=mark._replace(sequence=old.sequence, at_rest=True))
        return state._replace(old=old, session=Session("opens"), openings=state.openings - 1)

    def _at(self, state: State, session: Session) -> Steps:
        if session.at == "opens":
            yield "opens", self._opened(state)
        elif session.pending is not None:
            yield from self._second(state, session, session.pending)
        elif session.at in ("marks", "closes"):
            yield from self._first(state, session)
        else:
            if (key := next((key for key in state.old.keys if key >= session.low), None)) is not None:
                yield f"moves {key}", _moved(state, session, key)
            if state.marks:
                yield "marks", state._replace(session=session._replace(at="marks"), marks=state.marks - 1)
            yield "closes", state._replace(session=session._replace(at="closes"))

    def _opened(self, state: State) -> State:
        old = state.old._replace(manifest=state.old.manifest + 1)
        low, asks = self._judged(state)
        wrong = None
        if any(key < low for key in old.keys):
            wrong = HIDDEN
        elif asks and not (old.is_opened or old.is_foreign or state.is_replaced):
            wrong = ASKED_IN_VAIN
        elif not asks and state.is_written and _must_be_asked_about(state):
            wrong = NOT_ASKED
        token = None if asks and self._mutant is not Mutant.ANSWER_OLD_FIRST else _token(state)
        return state._replace(old=old, wrong=wrong, session=Session("marks", low, token))

    def _judged(self, state: State) -> tuple[int, bool]:
        """The low-water mark, and whether the caller is asked."""
        low, asks = self._judged_by_token(state)
        mark = state.old.mark or state.new
        if self._mutant is Mutant.MANIFEST_ALONE and mark is not None and mark.manifest == state.old.manifest:
            low = mark.low if mark.sequence <= state.old.sequence else 0
        return low, asks

    def _judged_by_token(self, state: State) -> tuple[int, bool]:
        mark, token = state.old.mark, _token(state)
        if not state.is_written:
            return 0, False
        if mark is None or token not in (mark.token, mark.previous):
            return 0, True
        is_named = mark.manifest == state.old.manifest or self._mutant is Mutant.MANIFEST_IGNORED
        is_in_force = is_named and state.old.sequence >= mark.sequence
        if not is_in_force and state.old.sequence != mark.sequence:
            return 0, True
        return (mark.low if is_in_force and mark.token == token else 0), False

    def _first(self, state: State, session: Session) -> Steps:
        old = state.old
        number = state.writings + 1
        token = 1 if self._mutant is Mutant.TOKEN_KEPT else number
        previous = None if self._mutant is Mutant.NO_PREVIOUS else session.token
        mark = Mark(token, previous, old.manifest, old.sequence, session.low, session.at == "closes", number)
        following = state._replace(writings=number, session=session._replace(pending=mark))
        if self._mutant is Mutant.NEW_FIRST or session.token is None:
            yield "writes to new", following._replace(new=mark)
        else:
            yield "writes to old", _answered(following, mark)

    def _second(self, state: State, session: Session, mark: Mark) -> Steps:
        ends = None if session.at == "closes" else Session("runs", session.low, mark.token)
        yield "writes to the other", _answered(state, mark)._replace(new=mark, session=ends)


def _token(state: State) -> int:
    return 0 if state.new is None else state.new.token


def _answered(state: State, mark: Mark) -> State:
    """The old directory is again as the adapter leaves it: what the caller answered is done by then."""
    old = state.old._replace(mark=mark, is_opened=False, is_foreign=False)
    return state._replace(old=old, left=old.keys, is_replaced=False)


def _must_be_asked_about(state: State) -> bool:
    """Not a copy that was made since the last mark."""
    mark, new = state.old.mark, state.new
    is_of_last_mark = mark is not None and new is not None and mark.number == new.number
    return state.old.is_foreign or (state.old.keys != state.left and not is_of_last_mark)


def _moved(state: State, session: Session, key: int) -> State:
    keys = tuple(other for other in state.old.keys if other != key)
    old = state.old._replace(keys=keys, sequence=state.old.sequence + 1)
    return state._replace(old=old, left=keys, is_written=True, session=session._replace(low=key + 1))


def _others(state: State) -> Steps:
    """What happens to the old directory while the adapter is not there."""
    old = state.old
    if state.copy is not None and state.copy != old:
        yield "puts the copy back", state._replace(old=state.copy, is_replaced=True)
    if state.foreign:
        opened = state._replace(old=old._replace(manifest=old.manifest + 1, is_opened=True), foreign=state.foreign - 1)
        yield "the old code only opens", opened
        wrote = opened.old._replace(keys=tuple({0, *old.keys}), sequence=old.sequence + 1, is_foreign=True)
        yield "the old code puts 0", opened._replace(old=wrote)
