"""Version 1 of the processor: for each name a count and a sum, as JSON.

python -m examples.lazy.version_1 EVENTS STATE
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from examples.lazy.stream import NameSerde, batches, offset_entry, offset_of
from migrate import TypedStore, open_store


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of one name."""

    count: int = 0
    sum: int = 0

    def plus(self, amount: int) -> Totals:
        """With one event more."""
        return Totals(self.count + 1, self.sum + amount)


class TotalsSerde:
    """As JSON."""

    name = "totals-json"

    def encode(self, totals: Totals) -> bytes:
        """The value in the store."""
        return json.dumps(asdict(totals)).encode()

    def decode(self, value: bytes) -> Totals:
        """The totals again."""
        return Totals(**json.loads(value))


def main(events: Path, state: Path) -> None:
    """Count what is not counted yet; say after each batch how far it is."""
    with open_store(state, format="rocksdb.raw", read_only=False, create=True) as store:
        names, totals = NameSerde(), TotalsSerde()
        typed = TypedStore(store, key=names, value=totals)
        for batch in batches(events, offset_of(store)):
            counted = {name: typed.get(name) or Totals() for name in batch.names}
            for name, amount in batch.events:
                counted[name] = counted[name].plus(amount)
            entries = [(names.encode(name), totals.encode(found)) for name, found in counted.items()]
            store.put_all([*entries, offset_entry(batch.next_offset)])
            print(f"at event {batch.next_offset}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
