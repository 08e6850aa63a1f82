"""What is written to a store, at random, and the files it is handed to the Java program in."""

import gzip
import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

_FIRST_TIMESTAMP = 1_700_000_000_000
_LONGEST_KEY = 40
_VALUE_SIZES = ((0, 0), (1, 16), (17, 120), (121, 2048))
_VALUE_SIZE_WEIGHTS = (5, 40, 50, 5)
_HEADERS: tuple[Headers, ...] = (
    (),
    (("h", b"x"),),
    (("h", None),),
    (("trace", bytes(16)), ("", b""), ("trace", b"\x00\xff"), ("größe", b"1" * 200)),
)
_WINDOW_STEP = 10_000
_LATE = 120_000


@dataclass(frozen=True, slots=True)
class Event:
    """One record sent to a store; without a value it deletes, with `read` it is only looked up.

    `start` is that of the window or session, `end` that of the session, in milliseconds.
    """

    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    start: int | None = None
    end: int | None = None
    read: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One record as a store must hold it; timestamp and headers are None where the store has none.

    A versioned store has a row for each version; one without a value deletes.
    `sequence` tells the duplicates in a join window apart.
    """

    key: bytes
    value: bytes | None
    timestamp: int | None = None
    headers: Headers | None = None
    start: int | None = None
    end: int | None = None
    sequence: int | None = None


def random_events(kind: str, records: int, *, seed: str, retention_ms: int = RETENTION_MS) -> list[Event]:
    """Write that many records at random, then overwrite a tenth of them and delete a twentieth.

    Windows, sessions and versions spread over more time than the retention, so that the oldest are gone at the end.
    """
    rng = random.Random(seed)
    shape = KINDS[kind].shape
    if shape == "key-value":
        return _key_value_events(records, rng)
    if shape == "versioned":
        return _versioned_events(records, rng, retention_ms)
    return _segmented_events(
        records, rng, retention_ms, sessions=shape == "session", deletes=not KINDS[kind].duplicates
    )


def touching_events(rows: Iterable[Row], *, seed: str) -> list[Event]:
    """Overwrite, delete and look up about a third of the rows, and add new ones next to some."""
    rng = random.Random(seed)
    events = []
    for row in rows:
        chance = rng.random()
        if chance > 0.4:
            continue
        time = row.start if row.end is None else row.end
        event = Event(
            row.key, _random_value(rng), (time or _FIRST_TIMESTAMP) + 77, rng.choice(_HEADERS), row.start, row.end
        )
        if chance < 0.1 and row.sequence is None:
            event = replace(event, value=None)
        elif chance < 0.2:
            event = replace(event, read=True)
        elif chance < 0.25:
            event = replace(event, key=row.key + b"\x01")
        events.append(event)
    return events


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write events in the form the Java program reads."""
    _write_lines(path, events)


def write_expected(path: Path, rows: Iterable[Row]) -> None:
    """Write what a store must hold in the form the Java program reads."""
    _write_lines(path, rows)


def read_expected(path: Path) -> list[Row]:
    """Read what a store must hold."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        return [_row(json.loads(line)) for line in lines]


def json_line(item: Event | Row) -> str:
    """Return it as the Java program reads it: without what is empty, but for the value and the timestamp."""
    line = {name: content for name, content in asdict(item).items() if content is not None and content is not False}
    line |= {"key": item.key.hex(), "value": _hex(item.value), "timestamp": item.timestamp}
    if item.headers is not None:
        line["headers"] = [[name, _hex(content)] for name, content in item.headers]
    return json.dumps(line) + "\n"


def _row(line: dict[str, Any]) -> Row:
    headers = line.get("headers")
    return Row(
        key=bytes.fromhex(line["key"]),
        value=_unhex(line["value"]),
        timestamp=line["timestamp"],
        headers=None if headers is None else tuple((name, _unhex(content)) for name, content in headers),
        start=line.get("start"),
        end=line.get("end"),
        sequence=line.get("sequence"),
    )


def _write_lines(path: Path, items: Iterable[Event | Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(map(json_line, items)).encode("ascii"), mtime=0))


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _key_value_events(records: int, rng: random.Random) -> list[Event]:
    keys = _random_keys(records, rng)
    rng.shuffle(keys)
    overwritten = rng.sample(keys, records // 10)
    deleted = rng.sample(keys, records // 20)
    writes: list[tuple[bytes, bytes | None]] = [(key, _random_value(rng)) for key in keys + overwritten]
    writes += [(key, None) for key in deleted]
    clock = _FIRST_TIMESTAMP
    events = []
    for key, value in writes:
        clock += rng.randrange(-5, 1000)  # now and then out of order
        events.append(Event(key, value, clock, rng.choice(_HEADERS)))
    return events


def _segmented_events(
    records: int, rng: random.Random, retention_ms: int, *, sessions: bool, deletes: bool
) -> list[Event]:
    keys = _random_keys(max(records // 4, 1), rng)
    slots: dict[tuple[bytes, int, int | None], None] = {}
    while len(slots) < records:
        time = _FIRST_TIMESTAMP + rng.randrange(int(retention_ms * 1.7))
        if rng.random() < 0.8:
            time -= time % _WINDOW_STEP
        length = rng.choice((0, rng.randrange(1, _LATE)))
        slots[rng.choice(keys), time, time + length if sessions else None] = None
    # Roughly in the order of time, as an application would write them.
    ordered = sorted(slots, key=lambda slot: (slot[2] or slot[1]) + rng.randrange(_LATE))
    changed = rng.sample(ordered, records // 10)
    deleted = rng.sample(ordered, records // 20) if deletes else []
    writes = [(slot, _random_value(rng)) for slot in ordered + changed]
    events = []
    for (key, start, end), value in [*writes, *((slot, None) for slot in deleted)]:
        stamp = (end or start) + rng.randrange(_WINDOW_STEP)
        events.append(Event(key, value, stamp, rng.choice(_HEADERS), start, end))
    return events


def _versioned_events(records: int, rng: random.Random, retention_ms: int) -> list[Event]:
    keys = _random_keys(max(records // 4, 1), rng)
    stamps = [_FIRST_TIMESTAMP + rng.randrange(int(retention_ms * 1.7)) for _ in range(records)]
    ordered = sorted(stamps, key=lambda stamp: stamp + rng.randrange(_LATE))
    events = [
        Event(rng.choice(keys), None if rng.random() < 0.05 else _random_value(rng), stamp, rng.choice(_HEADERS))
        for stamp in ordered
    ]
    last = max(stamps)
    for event in rng.sample(events, records // 10):  # a version at the same time as an older one, where not too late
        events.append(Event(event.key, _random_value(rng), event.timestamp))
    return [*events, Event(keys[0], b"the newest", last + 1)]


def _random_keys(count: int, rng: random.Random) -> list[bytes]:
    """Return distinct keys, some of them prefixes of others, some with the lowest and the highest byte."""
    keys = [b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"\xff" * _LONGEST_KEY][:count]
    seen = set(keys)
    while len(keys) < count:
        stem = rng.choice(keys) if keys and rng.random() < 0.3 else b""
        tail = rng.choice((b"\x00", b"\xff", b"a", rng.randbytes(rng.randint(1, _LONGEST_KEY))))
        key = (stem + tail)[:_LONGEST_KEY]
        if key not in seen:
            seen.add(key)
            keys.append(key)
    return keys


def _random_value(rng: random.Random) -> bytes:
    low, high = rng.choices(_VALUE_SIZES, weights=_VALUE_SIZE_WEIGHTS)[0]
    return rng.randbytes(rng.randint(low, high))
