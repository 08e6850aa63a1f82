"""What the model of the dual-read store is made of: two logs, the mark, and one session with its threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from typing import NamedTuple


class Mutant(StrEnum):
    """The protocol with one thing wrong."""

    PUT_OLD_FIRST = "a put takes the old copy away before it writes the new one"
    ABSENT_ASKS_NEW = "put_if_absent looks at the new store alone"
    DELETE_NEW_FIRST = "a delete touches new before old"
    DELETE_OLD_UNSYNCED = "a delete does not sync old before it touches new"
    DELETE_NEW_UNSYNCED = "a delete does not sync new before it touches old"
    DELETE_TRUSTS_CURSOR = "a delete leaves out old because the cursor is past the key"
    DELETE_FORGETS_DIRTY = "a delete leaves out old because the key is not there, though its removal is not synced"
    BATCH_DELETES_OLD = "put_all takes old copies away without having moved them to new"
    DRAIN_UNSYNCED = "queued keys are deleted from old before new is synced"
    DRAIN_LATE = "a drain takes what was queued after it synced new, too"
    FLUSH_FORGETS = "a flush drains the queue only if there is one, and syncs nothing else"
    LOG_OFF = "one database with its write-ahead log off: each family keeps what it flushed"
    GET_ONCE = "a get does not look at new a second time"
    GET_OLD_FIRST = "a get looks at old first"
    GET_TAKES_OFF_FOR_ABSENT = "a get that found nothing in new takes the switch-off meanwhile for an answer"
    MOVE_BLINDLY = "a read moves what it found without looking again under the lock"
    SNAPSHOTS_APART = "an iterator's two snapshots are not taken together"
    NO_TIE_RULE = "an iterator shows what both stores have"
    LATE_LOW = "an iterator starts its scan of old at the mark as it is when it gets there"
    CONVERGE_OVERWRITES = "the converger does not look whether new has the key"
    CONVERGE_OUTSIDE_LOCK = "the converger reads before it takes the lock"
    CONVERGE_UNSYNCED = "the converger deletes from old before new is synced"
    CONVERGE_KEEPS_LEFTOVERS = "the converger leaves in old what new has already"
    REJECTS_CLEARED = "the range that the converger deletes has rejects in it"
    LOW_PASSES_REJECTS = "the mark is where the cursor is, past rejects"
    MARK_EARLY = "the mark is written before the deletes that it vouches for"
    MARK_KEEPS_MANIFEST = "the mark is good after any session"
    MARK_KEEPS_SEQUENCE = "the mark is good though the sequence number went back"
    MARK_READ_UNLOCKED = "the mark is read, and judged, before the database is locked"
    UNMARKED_FIRST = "the mark is unlinked before old is empty for good"
    NEVER_MARKED = "a store has no mark before a first call of converge ends"
    OFF_AT_CURSOR = "the old store is switched off when the cursor is at its end, rejects or not"
    OFF_UNSYNCED = "the old store is switched off before its emptiness is synced"
    DROPS_UNSYNCED = "the old family is dropped before the log is synced"
    OPENS_UNSYNCED = "a session does not make durable what it recovers, but only remembers that old is dirty"


Contents = tuple[int | None, ...]
"""The value of each key in one store."""
Log = tuple[Contents, ...]
"""What a store held after each write: the first is durable, the last is what a reader sees."""
EMPTY: Contents = (None, None, None)
BAD = -1
"""A value that the conversion fails on. Whoever asks for it learns so."""
FOREIGN = 9
"""What the old code puts when it has its store back for a while."""


class Mark(NamedTuple):
    """What `stateferry.json` says."""

    low: int = 0
    """No old key is below this one."""
    named: bool = False
    """Whether CURRENT still names the manifest of the session that wrote it."""
    ahead: int = 0
    """By how much its sequence number is ahead of what is durable in the old store's log."""


VOID = Mark()


class Doing(NamedTuple):
    """An operation of the application under way."""

    name: str
    left: tuple[str, ...]
    """Its steps to come."""
    changes: tuple[tuple[int, int | None], ...] = ()
    goal: Contents | None = None
    """What all keys are once it is done."""
    locked: bool = True
    batch: frozenset[int] = frozenset()
    """What it may delete from old, once new is synced."""


class Get(NamedTuple):
    key: int
    at: str
    could: frozenset[int | None]
    """What the key was, at any instant since it began."""
    found: int | None = None


class Scan(NamedTuple):
    """An iterator: its snapshots, or the first of them."""

    new: Contents
    old: Contents | None
    low: int
    off: bool
    could: frozenset[Contents]


class Session(NamedTuple):
    """All that is gone when the process is."""

    low: int = 0
    cursor: int = 0
    queue: frozenset[int] = frozenset()
    rejects: frozenset[int] = frozenset()
    old_dirty: bool = False
    off: bool = False
    writer: Doing | None = None
    converging: str = ""
    """The converger's next step."""
    batch: frozenset[int] = frozenset()
    moved: tuple[tuple[int, int], ...] = ()
    """What the converger has read and not written; only where a mutant lets go of the lock in between."""
    get: Get | None = None
    scan: Scan | None = None

    @property
    def locked(self) -> bool:
        return self.writer is not None and self.writer.locked


class State(NamedTuple):
    """The disk, the session if there is one, and what must be true."""

    shared: bool
    """One database: both families are written and lost together."""
    new: Log
    old: Log
    spec: Contents
    """What every key is for the application."""
    since: frozenset[Contents]
    """What all keys were, at each instant since the last flush."""
    ops_left: int
    foreign_left: int
    marks: tuple[Mark | None, ...] = (None,)
    """The mark's file: what may be on disk, the newest last."""
    session: Session | None = None
    peeked: int | None = None
    """A low-water mark that was judged good before the database was locked."""
    wrong: str | None = None
    """What somebody saw that must not be."""

    @property
    def seen(self) -> Contents:
        return merged(self.new[-1], self.old[-1])

    @property
    def at_work(self) -> Session:
        assert self.session is not None
        return self.session

    def within(self, **changed: object) -> State:
        """The same with the session changed."""
        return self._replace(session=self.at_work._replace(**changed))  # type: ignore[arg-type]

    def wrote(self, new: Contents | None = None, old: Contents | None = None) -> State:
        """A write to one store, or to both families in one batch. What changes nothing leaves no trace."""
        new = self.new[-1] if new is None else new
        old = self.old[-1] if old is None else old
        same_new, same_old = new == self.new[-1], old == self.old[-1]
        if same_new and same_old:
            return self
        return self._replace(
            new=self.new if same_new and not self.shared else (*self.new, new),
            old=self.old if same_old and not self.shared else (*self.old, old),
        )

    def synced_new(self) -> State:
        return self.synced() if self.shared else self._replace(new=self.new[-1:])

    def synced_old(self) -> State:
        if self.shared:
            return self.synced()
        return self._replace(old=self.old[-1:], marks=nearer(self.marks, len(self.old) - 1))

    def synced(self) -> State:
        return self._replace(new=self.new[-1:], old=self.old[-1:], marks=nearer(self.marks, len(self.old) - 1))

    def marked(self, mark: Mark | None) -> State:
        """An atomic rename, or an unlinking, that is not synced."""
        return self._replace(marks=_distinct((*self.marks, mark)))

    def settled(self) -> State:
        """The instant at which an operation takes effect is the one at which all that it does can be seen."""
        doing = self.at_work.writer
        if doing is None or doing.goal is None or doing.goal == self.spec or doing.goal != self.seen:
            return self
        get, scan = self.at_work.get, self.at_work.scan
        if get is not None:
            get = get._replace(could=get.could | {doing.goal[get.key]})
        if scan is not None and scan.old is None:
            scan = scan._replace(could=scan.could | {doing.goal})
        later = self._replace(spec=doing.goal, since=self.since | {doing.goal})
        return later.within(get=get, scan=scan)


Steps = Iterator[tuple[str, State]]


@cache
def merged(new: Contents, old: Contents) -> Contents:
    """New wins."""
    return tuple(mine if mine is not None else other for mine, other in zip(new, old, strict=True))


def without(contents: Contents, keys: Iterable[int]) -> Contents:
    gone = {*keys}
    return tuple(None if key in gone else value for key, value in enumerate(contents))


def changed(contents: Contents, changes: Iterable[tuple[int, int | None]]) -> Contents:
    becomes = dict(changes)
    return tuple(becomes.get(key, value) for key, value in enumerate(contents))


def first_key(contents: Contents, start: int = 0) -> int | None:
    """What a seek finds."""
    return next((key for key in range(start, len(contents)) if contents[key] is not None), None)


def nearer(marks: tuple[Mark | None, ...], writes: int) -> tuple[Mark | None, ...]:
    """With so many more writes of the old store durable."""
    if not writes:
        return marks
    return _distinct(tuple(mark and mark._replace(ahead=max(0, mark.ahead - writes)) for mark in marks))


def voided(marks: tuple[Mark | None, ...]) -> tuple[Mark | None, ...]:
    """CURRENT names another manifest, and never again that one."""
    return _distinct(tuple(mark and VOID for mark in marks))


def _distinct(marks: tuple[Mark | None, ...]) -> tuple[Mark | None, ...]:
    """A power cut may bring back any of them; it does not matter which was first."""
    return tuple(reversed(dict.fromkeys(reversed(marks))))
