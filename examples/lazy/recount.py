"""Are the numbers right? The stream is counted once more, by a dict, and compared with what stands in the state."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from examples.lazy.stream import OFFSET_KEY, NameSerde, offset_entry, read_events
from examples.lazy.version_2 import FAMILY, Totals, TotalsSerde
from migrate import open_store

MARK = "stateferry.json"


def recount(events: Path, upgraded_at: int) -> dict[bytes, bytes]:
    """What version 2's store is to hold after all events, where it took over at that offset."""
    totals: dict[str, Totals] = {}
    for number, (name, amount) in enumerate(read_events(events)):
        found = totals.get(name, Totals())
        seen = amount if number >= upgraded_at else 0  # version 1 kept no largest amount
        totals[name] = Totals(found.count + 1, found.sum + amount, max(found.largest, seen))
    names, packed = NameSerde(), TotalsSerde()
    expected = {names.encode(name): packed.encode(found) for name, found in totals.items()}
    return expected | dict([offset_entry(sum(found.count for found in totals.values()))])


def what_is_wrong(events: Path, state: Path, upgraded_at: int) -> list[str]:
    """Nothing, one hopes. The state is opened by the plain new code: without the adapter."""
    expected = recount(events, upgraded_at)
    with (
        open_store(state, format="rocksdb.raw", family="default") as old,
        open_store(state, format="rocksdb.raw", family=FAMILY) as new,
    ):
        left, found = dict(old.all()), dict(new.all())
    wrong = [f"{len(left)} records are left in the old format"] if left else []
    if (state / MARK).exists():
        wrong.append(f"{MARK} is left in {state}")
    differing = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
    if differing:
        wrong.append(f"{len(differing)} records are wrong, {len(expected)} were expected")
    return wrong + [_difference(key, expected.get(key), found.get(key)) for key in islice(differing, 5)]


def _difference(key: bytes, expected: bytes | None, found: bytes | None) -> str:
    return f"{key.decode()}: expected {_shown(key, expected)}, found {_shown(key, found)}"


def _shown(key: bytes, value: bytes | None) -> str:
    if value is None:
        return "nothing"
    return str(int.from_bytes(value) if key == OFFSET_KEY else TotalsSerde().decode(value))
