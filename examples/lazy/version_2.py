"""Version 2 of the processor: a count, a sum and the largest amount, 24 packed bytes. It takes version 1's state over.

python -m examples.lazy.version_2 EVENTS STATE
"""

from __future__ import annotations

import struct
import sys
from dataclasses import astuple, dataclass
from pathlib import Path

from examples.lazy import version_1
from examples.lazy.stream import OFFSET_KEY, NameSerde, batches, offset_entry, offset_of
from formats import StateRecord
from migrate import DualReadStore, TypedStore

FAMILY = "v2"
SLICE = 20
"""Old records between two batches; few, so that the upgrade takes a while, to be killed in."""
_PACKED = struct.Struct(">QQQ")


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of one name."""

    count: int = 0
    sum: int = 0
    largest: int = 0
    """Of the amounts that version 2 saw."""

    def plus(self, amount: int) -> Totals:
        """With one event more."""
        return Totals(self.count + 1, self.sum + amount, max(self.largest, amount))


class TotalsSerde:
    """As three unsigned 64-bit numbers, big-endian."""

    name = "totals-packed"

    def encode(self, totals: Totals) -> bytes:
        """The value in the store."""
        return _PACKED.pack(*astuple(totals))

    def decode(self, value: bytes) -> Totals:
        """The totals again."""
        return Totals(*_PACKED.unpack(value))


def convert(record: StateRecord) -> StateRecord:
    """One record of version 1, as version 2 keeps it. Called for a record whenever it is needed: pure."""
    if record.key == OFFSET_KEY:
        return record
    old = version_1.TotalsSerde().decode(record.value)
    return StateRecord(record.key, TotalsSerde().encode(Totals(old.count, old.sum)))


def open_state(state: Path) -> DualReadStore:
    """The same directory: version 1's records in its column family, ours beside them, until all are ours."""
    return DualReadStore.open(state, source="rocksdb.raw", target="rocksdb.raw", target_family=FAMILY, convert=convert)


def main(events: Path, state: Path) -> None:
    """Count what is not counted yet, and move some of the old records between batches; say how far both are."""
    with open_state(state) as store:
        names, totals = NameSerde(), TotalsSerde()
        typed = TypedStore(store, key=names, value=totals)
        for batch in batches(events, offset_of(store)):
            counted = {name: typed.get(name) or Totals() for name in batch.names}
            for name, amount in batch.events:
                counted[name] = counted[name].plus(amount)
            entries = [(names.encode(name), totals.encode(found)) for name, found in counted.items()]
            store.put_all([*entries, offset_entry(batch.next_offset)])
            store.converge(max_records=SLICE, max_millis=20)
            print(f"at event {batch.next_offset}, {_moved(store)}", flush=True)
        while not store.is_converged:  # the stream rests: nothing else is to do
            store.converge()


def _moved(store: DualReadStore) -> str:
    if store.is_converged:
        return "every record in the new format"
    done = store.progress
    return f"{done.moved_by_read + done.moved_by_write + done.moved_by_converge} records moved since it started"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
