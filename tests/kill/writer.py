"""Writes to a store of the lazy adapter without end, and reports each operation that is done.

Both sides know the operations from the seed alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from migrate import DualReadStore
from tests.dual.pairings import UPGRADE, Ground
from tests.support import UNKNOWN_TIMESTAMP

OPENING = "opening"
"""Reported before the store is opened."""
DONE = "done"
"""Reported after each operation."""
KEYS = [b"key-%03d" % number for number in range(300)]
_SHARES = {"put": 6, "delete": 5, "put_all": 4, "put_if_absent": 4, "get": 3, "converge": 7, "flush": 1}
_MOST_CHANGES = 8
_MOST_MOVED = 6

Changes = list[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the store."""

    name: str
    changes: Changes
    """What it asks for; a value of None: delete, or for `get` nothing."""
    count: int

    def run(self, store: DualReadStore) -> None:
        """In the store."""
        key, value = self.changes[0]
        match self.name:
            case "put":
                store.put(key, value)
            case "delete":
                store.delete(key)
            case "put_all":
                store.put_all(self.changes)
            case "put_if_absent":
                assert value is not None
                store.put_if_absent(key, value)
            case "get":
                store.get(key)
            case "converge":
                store.converge(self.count, None)
            case _:
                store.flush()

    def effect(self, seen: Mapping[bytes, object]) -> Changes:
        """What is to change in a store that shows this."""
        if self.name in ("get", "converge", "flush") or (self.name == "put_if_absent" and self.changes[0][0] in seen):
            return []
        return self.changes


def operations(seed: int) -> Iterator[Operation]:
    """Without end."""
    random = Random(seed)
    names, shares = list(_SHARES), list(_SHARES.values())
    number = 0
    while True:
        number += 1
        name = random.choices(names, shares)[0]
        keys = random.sample(KEYS, random.randint(1, _MOST_CHANGES) if name == "put_all" else 1)
        value = UNKNOWN_TIMESTAMP + b"of %d, number %d" % (seed, number)
        changes: Changes = [
            (key, None if name == "delete" or (name == "put_all" and random.random() < 0.4) else value) for key in keys
        ]
        yield Operation(name, changes, random.randint(1, _MOST_MOVED))


def write_without_end(base: Path, seed: int, report: Callable[[str], None], *, two: bool) -> None:
    """Until the process is killed."""
    ground = Ground(base, UPGRADE, two=two)
    report(OPENING)
    with ground.open(migrate_on_read=True) as store:
        for operation in operations(seed):
            operation.run(store)
            report(DONE)
