"""The dual-read store, in every order that a small instance allows; and each rule of its protocol is needed."""

import pytest

from tests.protocols.dual_protocol import (
    HIDDEN,
    NOT_AN_INSTANT,
    NOT_EMPTY,
    NOT_KEPT,
    UNMARKED,
    DualReadProtocol,
    Instance,
    is_converged,
)
from tests.protocols.dual_readers import NOT_ONE, NOT_THEN
from tests.protocols.dual_state import BAD, Contents, Mutant
from tests.protocols.dual_writer import NOT_ACKNOWLEDGED
from tests.protocols.explore import CounterExample, explore

PUT, DELETE = ("put", (1,)), ("delete", (1,))
KEY = (PUT, DELETE)
SEVERAL = (("put_all", (0, 1)), ("put_if_absent", (1,)), ("put", (2,)))
LEFT_OVER: Contents = (None, 5, None)

ONE = Instance(shared=True, menu=KEY, foreign=(0,))
ONE_READ = Instance(shared=True, menu=KEY, gets=(1,))
ONE_SCANNED = Instance(shared=True, menu=(*KEY, SEVERAL[0]), ops=1, scans=True, foreign=(1,))
ONE_SEVERAL = Instance(shared=True, menu=SEVERAL)
TWO = Instance(shared=False, menu=KEY, foreign=(0,))
TWO_READ = Instance(shared=False, menu=KEY, gets=(1,))
TWO_SCANNED = Instance(shared=False, menu=(DELETE, SEVERAL[2]), ops=1, scans=True)
TWO_SEVERAL = Instance(shared=False, menu=SEVERAL)
TWO_LEFT_OVER = Instance(shared=False, menu=KEY, new=LEFT_OVER, ops=1, gets=(1,))
TWO_REJECTS = Instance(shared=False, menu=KEY, old=(0, BAD, 0))
ARRANGEMENTS = {
    "one database, the old code in between": (ONE, 18_000),
    "one database, a reader": (ONE_READ, 22_000),
    "one database, an iterator": (ONE_SCANNED, 5_000),
    "one database, batches": (ONE_SEVERAL, 3_000),
    "two databases, the old code in between": (TWO, 45_000),
    "two databases, a reader": (TWO_READ, 50_000),
    "two databases, an iterator": (TWO_SCANNED, 30_000),
    "two databases, batches": (TWO_SEVERAL, 10_000),
    "two databases, a left-over copy": (TWO_LEFT_OVER, 5_000),
    "two databases, a record that cannot be converted": (TWO_REJECTS, 14_000),
}
MUTANTS = {
    Mutant.PUT_OLD_FIRST: (ONE, NOT_KEPT),
    Mutant.ABSENT_ASKS_NEW: (TWO_SEVERAL, NOT_KEPT),
    Mutant.DELETE_NEW_FIRST: (TWO, NOT_KEPT),
    Mutant.DELETE_OLD_UNSYNCED: (TWO, NOT_AN_INSTANT),
    Mutant.DELETE_NEW_UNSYNCED: (TWO, NOT_AN_INSTANT),
    Mutant.DELETE_TRUSTS_CURSOR: (TWO, NOT_ACKNOWLEDGED),
    Mutant.DELETE_FORGETS_DIRTY: (TWO, NOT_AN_INSTANT),
    Mutant.BATCH_DELETES_OLD: (TWO_SEVERAL, NOT_KEPT),
    Mutant.DRAIN_UNSYNCED: (TWO, NOT_AN_INSTANT),
    Mutant.DRAIN_LATE: (TWO_READ, NOT_AN_INSTANT),
    Mutant.FLUSH_FORGETS: (TWO, NOT_AN_INSTANT),
    Mutant.LOG_OFF: (ONE, NOT_AN_INSTANT),
    Mutant.GET_ONCE: (TWO_READ, NOT_THEN),
    Mutant.GET_OLD_FIRST: (TWO_READ, NOT_THEN),
    Mutant.GET_TAKES_OFF_FOR_ABSENT: (TWO_READ, NOT_THEN),
    Mutant.MOVE_BLINDLY: (TWO_READ, NOT_KEPT),
    Mutant.SNAPSHOTS_APART: (TWO_SCANNED, NOT_ONE),
    Mutant.NO_TIE_RULE: (TWO_SCANNED, NOT_ONE),
    Mutant.LATE_LOW: (TWO_SCANNED, NOT_ONE),
    Mutant.CONVERGE_OVERWRITES: (TWO, NOT_KEPT),
    Mutant.CONVERGE_OUTSIDE_LOCK: (TWO, NOT_KEPT),
    Mutant.CONVERGE_UNSYNCED: (TWO, NOT_AN_INSTANT),
    Mutant.REJECTS_CLEARED: (TWO_REJECTS, NOT_KEPT),
    Mutant.LOW_PASSES_REJECTS: (TWO_REJECTS, HIDDEN),
    Mutant.MARK_EARLY: (TWO, HIDDEN),
    Mutant.MARK_KEEPS_MANIFEST: (TWO, HIDDEN),
    Mutant.MARK_KEEPS_SEQUENCE: (TWO, HIDDEN),
    Mutant.MARK_READ_UNLOCKED: (TWO, HIDDEN),
    Mutant.UNMARKED_FIRST: (TWO, UNMARKED),
    Mutant.NEVER_MARKED: (TWO, UNMARKED),
    Mutant.OFF_AT_CURSOR: (TWO_REJECTS, NOT_EMPTY),
    Mutant.OFF_UNSYNCED: (TWO, NOT_AN_INSTANT),
    Mutant.DROPS_UNSYNCED: (ONE, NOT_AN_INSTANT),
    Mutant.OPENS_UNSYNCED: (TWO, NOT_AN_INSTANT),
}
IN_ONE_DATABASE_TOO = {
    Mutant.GET_ONCE: (ONE_READ, NOT_THEN),
    Mutant.GET_TAKES_OFF_FOR_ABSENT: (ONE_READ, NOT_THEN),
    Mutant.MOVE_BLINDLY: (ONE_READ, NOT_KEPT),
    Mutant.SNAPSHOTS_APART: (ONE_SCANNED, NOT_ONE),
    Mutant.NO_TIE_RULE: (ONE_SCANNED, NOT_ONE),
    Mutant.CONVERGE_OVERWRITES: (ONE, NOT_KEPT),
    Mutant.CONVERGE_OUTSIDE_LOCK: (ONE, NOT_KEPT),
    Mutant.MARK_KEEPS_MANIFEST: (ONE, HIDDEN),
    Mutant.MARK_KEEPS_SEQUENCE: (ONE, HIDDEN),
    Mutant.MARK_READ_UNLOCKED: (ONE, HIDDEN),
}
STUCK = Mutant.CONVERGE_KEEPS_LEFTOVERS


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_the_dual_read_store_loses_nothing_brings_nothing_back_and_always_converges(name: str) -> None:
    instance, at_least = ARRANGEMENTS[name]
    model = DualReadProtocol(instance)
    found = explore(model)
    print(f"{len(found)} states: {name}")
    assert found.counter_example is None, f"{found.counter_example}"
    assert len(found) > at_least
    assert any(is_converged(state) for state in found)
    assert model.all_finish(found)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_of_the_dual_read_store_is_needed(mutant: Mutant) -> None:
    instance, broken = MUTANTS[mutant]
    assert _found(instance, mutant).invariant == broken


@pytest.mark.parametrize("mutant", IN_ONE_DATABASE_TOO, ids=lambda mutant: mutant.name)
def test_one_database_needs_the_rule_too(mutant: Mutant) -> None:
    instance, broken = IN_ONE_DATABASE_TOO[mutant]
    assert _found(instance, mutant).invariant == broken


def test_a_store_whose_left_over_copies_stay_never_converges() -> None:
    model = DualReadProtocol(Instance(shared=False, menu=(PUT,), ops=1), STUCK)
    found = explore(model)
    assert found.counter_example is None
    assert not model.all_finish(found)


def test_every_mutant_of_the_dual_read_store_is_tried() -> None:
    assert {*MUTANTS, STUCK} == {*Mutant}


def _found(instance: Instance, mutant: Mutant) -> CounterExample:
    found = explore(DualReadProtocol(instance, mutant)).counter_example
    print(found)
    assert found is not None, "nobody notices"
    return found
