"""A processor on the lazy adapter is killed at any instant: what was acknowledged stays, and nothing else is there."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

from tests.dual.model import Model
from tests.dual.pairings import UPGRADE, Ground
from tests.kill.checks import require
from tests.kill.victim import WRITE, Order
from tests.kill.writer import DONE, KEYS, OPENING, operations
from tests.kill.zygote import Zygote

_SHARE_OF_OPENINGS = 0.15
_MOST_OPERATIONS = 60
_LATEST = 0.001
_OLD = {key: b"old " + key for key in KEYS if key[-1] not in b"37"}


def kill_adapter(folder: Path, kills: int, zygote: Zygote, *, two: bool) -> None:
    """One store after the other, each killed until no old record is left. Raises CheckFailedError."""
    folder.mkdir()
    life = _Life(folder, two, Random(kills), zygote)
    for seed in range(kills):
        life.kill_and_check(seed)
    require(life.half_way > kills // 4, "too few kills left a store half converged")


@dataclass(slots=True)
class _Life:
    folder: Path
    two: bool
    random: Random
    zygote: Zygote
    model: Model = field(init=False)
    ground: Ground | None = None
    """None: no old record is left in the store before."""
    half_way: int = 0
    """Kills that left a store with old records, and some moved."""

    def kill_and_check(self, seed: int) -> None:
        ground = self.ground or self._begin(seed)
        done = self._write_until_killed(ground, seed)
        *finished, in_flight = islice(operations(seed), done + 1)
        for operation in finished:
            self.model.change(operation.effect(self.model.seen))
        without = dict(self.model.seen)
        self.model.change(in_flight.effect(self.model.seen))
        where = f"two={self.two}, seed {seed}, {done} operations done, then {in_flight}"
        # What the next process finds is not what this one has tidied up.
        copy = Ground(self.folder / "copy", UPGRADE, two=self.two)
        shutil.copytree(ground.base, copy.base)
        shown, goes_on = _look(copy, where)
        require(shown in (without, self.model.seen), f"{where}: {_differences(shown, without)}")
        shutil.rmtree(copy.base)
        self.model.seen = dict(shown)
        self.half_way += goes_on and done > 0
        self.ground = ground if goes_on else None

    def _begin(self, seed: int) -> Ground:
        """A store that no adapter has seen."""
        ground = Ground(self.folder / f"store-{seed}", UPGRADE, two=self.two)
        ground.make(_OLD, flush=self.random.random() < 0.5)
        self.model = Model(UPGRADE.seen(_OLD))
        return ground

    def _write_until_killed(self, ground: Ground, seed: int) -> int:
        """How many operations were acknowledged; it is killed soon after so many, and may be further by then."""
        is_opening = self.random.random() < _SHARE_OF_OPENINGS
        events = self.folder / f"{seed}.events"
        order = Order(
            str(ground.base),
            WRITE,
            str(events),
            at=OPENING if is_opening else DONE,
            occurrence=1 if is_opening else self.random.randint(1, _MOST_OPERATIONS),
            after=self.random.uniform(1e-6, _LATEST),  # else every kill would hit the beginning of an operation
            seed=seed,
            two=self.two,
        )
        outcome = self.zygote.fulfil(order, log=events.with_suffix(".log"))
        require(outcome.killed, f"seed {seed}: the processor ended with {outcome.code}")
        opening, *done = events.read_text(encoding="utf-8").splitlines()
        require(opening == OPENING and set(done) <= {DONE}, f"seed {seed}: {events} is damaged")
        return len(done)


def _look(ground: Ground, where: str) -> tuple[dict[bytes, bytes], bool]:
    """What the store shows, the same in every way of reading; and whether it had old records left."""
    with ground.open(migrate_on_read=False) as store:
        goes_on = not store.is_converged
        records = list(store.all())
        shown = dict(records)
        require([key for key, _ in records] == sorted(shown), f"{where}: keys are not in order")
        require(list(store.reverse_all()) == records[::-1], f"{where}: read backwards it differs")
        require(store.multi_get(KEYS) == [shown.get(key) for key in KEYS], f"{where}: read by key it differs")
        store.converge(None, None)
        require(store.is_converged, f"{where}: old records are left")
        require(list(store.all()) == records, f"{where}: converged it differs")
    with ground.open_plain() as plain:
        require(list(plain.all()) == records, f"{where}: opened without the adapter it differs")
    return shown, goes_on


def _differences(shown: dict[bytes, bytes], expected: Mapping[bytes, object]) -> dict[bytes, tuple[object, object]]:
    """(What is shown, what was to be), by key."""
    both = {key: (shown.get(key), expected.get(key)) for key in KEYS}
    return {key: pair for key, pair in both.items() if pair[0] != pair[1]}
