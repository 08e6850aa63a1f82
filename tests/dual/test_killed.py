"""The process that writes is killed at any instant: what it was told is done stays done."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.dual.model import Model
from tests.dual.pairings import UPGRADE, Ground
from tests.dual.writer import DONE, KEYS, OPENING, operations, write_without_end

_PROCESSES = multiprocessing.get_context("forkserver")
"""Forked off a process that has imported everything and opened nothing: to start an interpreter takes a second."""
_PROCESSES.set_forkserver_preload(["tests.dual.writer"])
IN_ALL = 200
"""Kills, in the long form."""
_SHARE_OF_OPENINGS = 0.15
_MOST_OPERATIONS = 60
_LATEST = 0.001
_OLD = {key: b"old " + key for key in KEYS if key[-1] not in b"37"}


@dataclass(slots=True)
class Life:
    """One store after the other, each killed until no old record is left."""

    folder: Path
    two: bool
    random: Random
    model: Model = field(init=False)
    ground: Ground = field(init=False)
    stores: int = 0
    half_way: int = 0
    """Kills that left a store with old records, and some moved."""

    def begin(self) -> None:
        """A store that no adapter has seen."""
        self.stores += 1
        self.ground = Ground(self.folder / f"store-{self.stores}", UPGRADE, two=self.two)
        self.ground.make(_OLD, flush=self.random.random() < 0.5)
        self.model = Model(UPGRADE.seen(_OLD))

    def kill_and_check(self, seed: int) -> bool:
        """Whether old records are left."""
        at_most = 0 if self.random.random() < _SHARE_OF_OPENINGS else self.random.randint(1, _MOST_OPERATIONS)
        done = _run_until_killed(self.ground, seed, at_most, self.random.uniform(0, _LATEST))
        *finished, in_flight = islice(operations(seed), done + 1)
        for operation in finished:
            self.model.change(operation.effect(self.model.seen))
        without = dict(self.model.seen)
        self.model.change(in_flight.effect(self.model.seen))
        where = f"seed {seed}, {done} operations done, then {in_flight}"
        # What the next process finds is not what this one has tidied up.
        copy = Ground(self.folder / "looked at", UPGRADE, two=self.two)
        shutil.copytree(self.ground.base, copy.base)
        shown, goes_on = _look(copy, where)
        assert shown in (without, self.model.seen), f"{where}: {_differences(shown, without)}"
        shutil.rmtree(copy.base)
        self.model.seen = dict(shown)
        self.half_way += goes_on and done > 0
        return goes_on


def _run_until_killed(ground: Ground, seed: int, after: int, delay: float) -> int:
    """How many operations it called done; it is killed after so many, and may be further by then."""
    told_by, out = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=write_without_end, args=(ground.base, ground.two, seed, out))
    with told_by:
        process.start()
        try:
            out.close()
            told = bytearray()
            while len(told) <= after and (more := os.read(told_by.fileno(), 1)):
                told += more
            time.sleep(delay)  # else every kill would hit the beginning of an operation
        finally:
            process.kill()
            process.join()
        while more := os.read(told_by.fileno(), 1 << 16):
            told += more
    assert process.exitcode == -signal.SIGKILL
    assert told == OPENING + DONE * (len(told) - 1)
    return len(told) - 1


def _look(ground: Ground, where: str) -> tuple[dict[bytes, bytes], bool]:
    """What the store shows, the same in every way of reading; and whether it had old records left."""
    with ground.open(migrate_on_read=False) as store:
        goes_on = not store.is_converged
        records = list(store.all())
        shown = dict(records)
        assert [key for key, _ in records] == sorted(shown), where
        assert list(store.reverse_all()) == records[::-1], where
        assert store.multi_get(KEYS) == [shown.get(key) for key in KEYS], where
        store.converge(None, None)
        assert store.is_converged, where
        assert list(store.all()) == records, where
    with ground.open_plain() as plain:
        assert list(plain.all()) == records, where
    return shown, goes_on


def _differences(shown: dict[bytes, bytes], expected: Mapping[bytes, object]) -> dict[bytes, tuple[object, object]]:
    """(What is shown, what was to be), by key."""
    both = {key: (shown.get(key), expected.get(key)) for key in KEYS}
    return {key: pair for key, pair in both.items() if pair[0] != pair[1]}


def _kill(folder: Path, kills: int, *, two: bool) -> None:
    life = Life(folder, two, Random(kills))
    goes_on = False
    for seed in range(kills):
        if not goes_on:
            life.begin()
        goes_on = life.kill_and_check(seed)
    assert life.half_way > kills // 4


@pytest.mark.parametrize("two", [False, True])
def test_what_was_acknowledged_outlives_the_process_and_nothing_else_is_there(tmp_path: Path, two: bool) -> None:
    _kill(tmp_path, 8, two=two)


@pytest.mark.slow
@pytest.mark.parametrize("two", [False, True])
def test_it_outlives_it_hundreds_of_times(tmp_path: Path, two: bool) -> None:
    _kill(tmp_path, IN_ALL // 2, two=two)
