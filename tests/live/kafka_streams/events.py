"""What is written to a store, and what the store must hold afterwards."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_FIRST_TIMESTAMP = 1_700_000_000_000
_LONGEST_KEY = 40
_VALUE_SIZES = ((0, 0), (1, 16), (17, 120), (121, 2048))
_VALUE_SIZE_WEIGHTS = (5, 40, 50, 5)


@dataclass(frozen=True, slots=True)
class Event:
    """One record sent to a store; without a value it deletes."""

    key: bytes
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class Held:
    """A value as the store must hold it; the timestamp is None where the store has none."""

    value: bytes
    timestamp: int | None


def random_events(records: int, *, seed: str) -> list[Event]:
    """Write that many keys in random order, then overwrite a tenth of them and delete a twentieth."""
    rng = random.Random(seed)
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
        events.append(Event(key, value, clock))
    return events


def held_after(events: Iterable[Event], *, timestamped: bool) -> dict[bytes, Held]:
    """Return what a store holds after the events."""
    held: dict[bytes, Held] = {}
    for event in events:
        if event.value is None:
            held.pop(event.key, None)
        else:
            held[event.key] = Held(event.value, event.timestamp if timestamped else None)
    return held


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write events in the form the Java program reads."""
    _write_rows(path, ((event.key, event.value, event.timestamp) for event in events))


def write_expected(path: Path, held: Mapping[bytes, Held]) -> None:
    """Write what a store must hold, in key order, in the form the Java program reads."""
    _write_rows(path, ((key, held[key].value, held[key].timestamp) for key in sorted(held)))


def read_expected(path: Path) -> dict[bytes, Held]:
    """Read what a store must hold."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        rows = [json.loads(line) for line in lines]
    return {bytes.fromhex(row["key"]): Held(bytes.fromhex(row["value"]), row["timestamp"]) for row in rows}


def _write_rows(path: Path, rows: Iterable[tuple[bytes, bytes | None, int | None]]) -> None:
    lines = [
        json.dumps({"key": key.hex(), "value": None if value is None else value.hex(), "timestamp": timestamp}) + "\n"
        for key, value, timestamp in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(lines).encode("ascii"), mtime=0))


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
