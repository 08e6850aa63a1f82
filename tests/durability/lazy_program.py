"""The program that is traced: a DualReadStore at work, with nothing around it.

`python -m tests.durability.lazy_program BASE EVENTS ARRANGEMENT`: after each step it says so to the file EVENTS.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from migrate import DualReadStore

SOURCE, TARGET = "kafka-streams.key-value", "kafka-streams.timestamped-key-value"
ONE, TWO = "one database", "two databases"
"""Arrangements of the two stores."""
Change = tuple[bytes, bytes | None]


def old_key(number: int) -> bytes:
    """Of a record that the old store has to begin with."""
    return b"old-%02d" % number


OLD = {old_key(number): b"old value %d" % number for number in range(26)}


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the store."""

    method: str
    arguments: tuple[object, ...] = ()
    changes: Sequence[Change] = ()
    """What is to be seen after it."""


def _new(text: bytes) -> bytes:
    return b"\0\0\0\0\0\0\0\1" + text


def _put(key: bytes, text: bytes) -> Step:
    return Step("put", (key, _new(text)), [(key, _new(text))])


def _delete(key: bytes) -> Step:
    return Step("delete", (key,), [(key, None)])


def _put_all(*changes: Change) -> Step:
    return Step("put_all", (changes,), changes)


def _get(key: bytes) -> Step:
    return Step("get", (key,))


def _converge(records: int | None) -> Step:
    return Step("converge", (records, None))


FLUSH = Step("flush")
STEPS = [
    _put(old_key(0), b"put first"),
    _put(b"new-00", b"not old"),
    _delete(old_key(1)),
    _get(old_key(2)),
    _delete(old_key(2)),
    _put(old_key(3), b"put, then deleted"),
    _delete(old_key(3)),
    _put(b"new-01", b"after the deletes"),
    _put(old_key(6), b"put before a batch"),
    _put_all((old_key(4), _new(b"in a batch")), (old_key(5), None), (old_key(6), None), (b"new-02", _new(b"too"))),
    _converge(3),
    _put(old_key(25), b"put at the end"),
    FLUSH,
    _put(b"new-00", b"again"),
    _delete(b"new-01"),
    _get(old_key(11)),
    _converge(4),
    _delete(old_key(8)),
    _put(old_key(20), b"ahead of the sweep"),
    _delete(old_key(21)),
    _delete(old_key(20)),
    _put_all((old_key(22), _new(b"second batch")), (old_key(11), None), (old_key(23), None), (old_key(0), None)),
    _get(old_key(15)),
    _delete(old_key(15)),
    FLUSH,
    _put(old_key(1), b"back again"),
    _put(old_key(18), b"before the last sweep"),
    _converge(4),
    _delete(old_key(19)),
    _put(b"new-03", b"before the last sweep"),
    _converge(None),
    _delete(old_key(24)),
    _put(b"new-04", b"converged"),
    FLUSH,
    _put(b"new-05", b"last"),
    Step("close"),
]


def open_dual(base: Path, arrangement: str) -> DualReadStore:
    """Over the old store in `base`."""
    old = base / "old"
    if arrangement == ONE:
        return DualReadStore.open(old, source=SOURCE, target=TARGET, migrate_on_read=True)
    return DualReadStore.open(base / "new", old_path=old, source=SOURCE, target=TARGET, migrate_on_read=True)


def main(base: str, events: str, arrangement: str) -> None:
    """All steps, one after the other."""
    descriptor = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    store = open_dual(Path(base), arrangement)
    for step in STEPS:
        getattr(store, step.method)(*step.arguments)
        os.write(descriptor, step.method.encode())
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
