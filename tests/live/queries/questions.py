"""What is written to a store, and what it is asked then: times, keys and versions at, before and after every bound."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.live.kafka_streams.events import Event, random_events
from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS, Kind, segment_interval

RECORDS = 400
SKEWED = 30
ORDERS = ("any", "ascending", "descending")
_NEWEST = b"newest"
_SHORTEST_SEGMENT_MS = 60_000

CALLS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "key-value": (
        ("get", "key"),
        ("range", "keys"),
        ("reverse_range", "keys"),
        ("prefix_scan", "prefix"),
    ),
    "window": (
        ("fetch", "slot"),
        ("fetch", "key times"),
        ("backward_fetch", "key times"),
        ("fetch_keys", "keys times"),
        ("backward_fetch_keys", "keys times"),
        ("fetch_all", "times"),
        ("backward_fetch_all", "times"),
    ),
    "session": (
        ("fetch", "key"),
        ("fetch", "keys"),
        ("backward_fetch", "key"),
        ("backward_fetch", "keys"),
        ("fetch_session", "session"),
        ("find_sessions", "key times"),
        ("find_sessions", "keys times"),
        ("backward_find_sessions", "key times"),
        ("backward_find_sessions", "keys times"),
    ),
    "versioned": (("get", "key"), ("get", "slot")),
}
"""By shape of store: (method, what its arguments are)."""

SCANS: Final[Mapping[str, Sequence[str]]] = {
    "key-value": ("all", "reverse_all"),
    "window": ("all", "backward_all"),
    "session": (),
    "versioned": (),
}
"""By shape of store, the methods without arguments, which are asked once."""

QUERIES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "key-value": (
        ("KeyQuery", "key"),
        ("TimestampedKeyQuery", "key"),
        ("RangeQuery", "keys order"),
        ("TimestampedRangeQuery", "keys order"),
    ),
    "window": (("WindowKeyQuery", "key times"), ("WindowRangeQuery", "times")),
    "session": (("WindowRangeQuery", "key"),),
    "versioned": (("VersionedKeyQuery", "key maybe"), ("MultiVersionedKeyQuery", "key span order")),
}
"""By the shape of store that knows them; of any other one they are asked now and then."""


@dataclass(frozen=True, slots=True)
class Question:
    """A method of a view with its arguments, or a query of interactive queries v2, named as its class."""

    call: str
    args: tuple[Any, ...]
    bound: str = "unbounded"
    """Of a query's position: "unbounded", "at" the store's own or "beyond" it."""

    @property
    def is_query(self) -> bool:
        """Whether it is asked by `query`."""
        return self.call.endswith("Query")

    def content(self) -> dict[str, Any]:
        """As the Java program reads it."""
        args = [each.hex() if isinstance(each, bytes) else each for each in self.args]
        return {"call": self.call, "args": args, "bound": self.bound}


def skewed_events(kind: str, *, seed: str) -> list[Event]:
    """Random records, and many of few keys: at the retention's edge, at the segments' bounds, touching each other."""
    rng = random.Random(seed)
    events = random_events(kind, RECORDS, seed=seed)
    held = KINDS[kind]
    if held.shape == "key-value":
        return events
    hot = hot_keys(events)
    times = sorted([*edges(events), *rng.choices(edges(events), k=SKEWED)])
    more = [_event(held, rng.choice(hot), time, rng) for time in times]
    return list(_intime_of(events, more))


def hot_keys(events: Iterable[Event]) -> list[bytes]:
    """The shortest three: one is the beginning of another, and of many more."""
    return sorted({event.key for event in events}, key=lambda key: (len(key), key))[:3]


def newest_events(kind: str, events: Iterable[Event]) -> list[Event]:
    """A record with the newest time of the others: the store that is opened again knows its stream time by it.

    A versioned store then knows none of its segments either, not even to read them, until it has written to them.
    """
    last = max(events, key=time_of)
    start, end = (None, None) if last.start is None else (time_of(last), last.end)
    newest = Event(_NEWEST, b"x", max(time_of(last), last.timestamp), start=start, end=end)
    if KINDS[kind].shape != "versioned":
        return [newest]
    times = range(newest.timestamp - RETENTION_MS - _SHORTEST_SEGMENT_MS, newest.timestamp, _SHORTEST_SEGMENT_MS)
    return [*(replace(newest, timestamp=time) for time in times), newest]


def edges(events: Iterable[Event]) -> list[int]:
    """Times at the bounds of retention and of segments, 1 ms before and after, and the newest one."""
    newest = max(map(time_of, events))
    interval = segment_interval(RETENTION_MS)
    segments = range(newest // interval * interval, newest - RETENTION_MS - interval, -interval)
    return [
        newest,
        *(edge + by for edge in (newest - RETENTION_MS, *segments) for by in (-1, 0, 1) if edge + by < newest),
    ]


def random_questions(kind: str, events: Sequence[Event], count: int, *, seed: str) -> list[Question]:
    """As many questions of the kind's calls and of every query, at and around what was written."""
    rng = random.Random(seed)
    arguments = _Arguments(events, rng)
    shape = KINDS[kind].shape
    questions = [Question(call, ()) for call in SCANS[shape]]
    while len(questions) < count:
        asked = (
            CALLS[shape] if rng.random() < 0.6 else QUERIES[shape] if rng.random() < 0.9 else sum(QUERIES.values(), ())
        )
        call, words = rng.choice(asked)
        args = tuple(arg for word in words.split() for arg in arguments.of(word))
        questions.append(Question(call, args, rng.choices(("unbounded", "at", "beyond"), (6, 3, 1))[0]))
    return questions


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """In the form the Java program reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each.content()) + "\n" for each in questions), encoding="ascii")


def _event(kind: Kind, key: bytes, time: int, rng: random.Random) -> Event:
    if kind.shape == "versioned":
        return Event(key, rng.choice((b"hot", None)), time)
    if kind.shape == "session":  # the next one begins where another ends
        start = rng.choice((time, time - 1, time - 60_000, time - RETENTION_MS))
        return Event(key, rng.randbytes(4), time, start=start, end=time)
    return Event(key, rng.randbytes(4), time, start=time)


def _intime_of(events: Iterable[Event], more: Sequence[Event]) -> Iterator[Event]:
    """Each of `more`, which are in order, as soon as an event is as late."""
    latest, left = 0, list(reversed(more))
    for event in events:
        latest = max(latest, time_of(event))
        while left and time_of(left[-1]) <= latest:
            yield left.pop()
        yield event


def time_of(event: Event) -> int:
    """What a store takes for its stream time."""
    return next(time for time in (event.end, event.start, event.timestamp) if time is not None)


class _Arguments:
    """Makes random arguments from what was written."""

    def __init__(self, events: Sequence[Event], rng: random.Random) -> None:
        self._events = events
        self._rng = rng
        self._edges = edges(events)
        self._hot = hot_keys(events)
        self._keys_in_order = sorted({event.key for event in events})

    def of(self, word: str) -> tuple[Any, ...]:
        made: tuple[Any, ...] = getattr(self, f"_{word}")()
        return made

    def _key(self) -> tuple[bytes]:
        key = self._rng.choice(self._hot) if self._rng.random() < 0.4 else self._event().key
        return (self._beside(key),)

    def _keys(self) -> tuple[bytes | None, bytes | None]:
        """Mostly few keys apart, so that answers are short."""
        at = self._rng.randrange(len(self._keys_in_order))
        ends = (self._keys_in_order[at], *self._key()) if self._rng.random() < 0.2 else self._keys_in_order[at : at + 9]
        low, high = (None if self._rng.random() < 0.08 else self._beside(key) for key in (min(ends), max(ends)))
        return (high, low) if self._rng.random() < 0.05 else (low, high)

    def _prefix(self) -> tuple[bytes]:
        key = self._event().key
        return (key[: self._rng.randrange(len(key) + 1)],)

    def _time(self) -> tuple[int]:
        chance = self._rng.random()
        if chance < 0.4:
            return (self._rng.choice(self._edges),)
        if chance < 0.5:
            return (self._rng.choice((-1, 0, self._edges[0] + RETENTION_MS, 1 << 62)),)
        event = self._event()
        return ((event.start or event.timestamp) + self._rng.choice((-1, 0, 0, 1)),)

    def _times(self) -> tuple[int, ...]:
        return tuple(sorted((*self._time(), *self._time()), reverse=self._rng.random() < 0.05))

    def _maybe(self) -> tuple[int | None]:
        return (None,) if self._rng.random() < 0.3 else self._time()

    def _span(self) -> tuple[int | None, ...]:
        return tuple(None if self._rng.random() < 0.4 else time for time in self._times())

    def _slot(self) -> tuple[bytes, int]:
        event = self._event()
        return event.key, time_of(event) + self._rng.choice((-1, 0, 0, 0, 1))

    def _session(self) -> tuple[bytes, int, int]:
        event = self._event()
        return event.key, event.start or 0, (event.end or 0) + self._rng.choice((0, 0, 0, 1))

    def _order(self) -> tuple[str]:
        return (self._rng.choice(ORDERS),)

    def _beside(self, key: bytes) -> bytes:
        return self._rng.choices((key, key + b"\x00", key[:-1]), (8, 1, 1))[0]

    def _event(self) -> Event:
        return self._rng.choice(self._events)
