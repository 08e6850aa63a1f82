"""The protocols, in every order that a small instance allows: no crash breaks them, and each rule of them is needed."""

import pytest

from tests.protocols import chunk_protocol, cutover_protocol
from tests.protocols.chunk_protocol import COARSE, ChunkProtocol, is_finished
from tests.protocols.chunk_state import Mutant as ChunkMutant
from tests.protocols.cutover_protocol import CutOverProtocol, is_finalized, is_rolled_back
from tests.protocols.cutover_state import NO_LINE
from tests.protocols.cutover_state import Mutant as CutOverMutant
from tests.protocols.explore import Model, S, explore

Chunks = chunk_protocol.Instance
CutOver = cutover_protocol.Instance

ONE_CHUNK = Chunks(chunks=1)
THREE_RUNS = Chunks(chunks=1, runs=3, stages=COARSE)
PLANNED_GAP = Chunks(forgotten=1, stages=COARSE)
CHUNKS = {
    "one driver, two chunks, twins, failures": (Chunks(runs=1, twins=1, failures=1), 4_000),
    "two drivers, workers that outlive them": (Chunks(chunks=1, zombies=True), 2_000),
    "two drivers, twins, workers that outlive them": (Chunks(chunks=1, twins=1, zombies=True, stages=COARSE), 8_000),
    "two drivers at a time, three runs": (THREE_RUNS, 12_000),
    "two drivers, two chunks": (Chunks(stages=COARSE), 18_000),
}
GONE = "a committed chunk's file is there, whole and durable"
UNREADABLE = "the ledger can be read"
NOT_FENCED = "a driver that was fenced off commits nothing more"
WRONG_STORE = "an assembled store is durable, with each chunk in it once, whole"
CHUNK_MUTANTS = {
    ChunkMutant.SST_NOT_SYNCED: (ONE_CHUNK, GONE),
    ChunkMutant.NAME_NOT_SYNCED: (ONE_CHUNK, GONE),
    ChunkMutant.RECEIPT_FIRST: (ONE_CHUNK, GONE),
    ChunkMutant.SHARED_NAME: (ONE_CHUNK, GONE),
    ChunkMutant.ROW_NOT_SYNCED: (ONE_CHUNK, UNREADABLE),
    ChunkMutant.OPENED_UNSYNCED: (ONE_CHUNK, UNREADABLE),
    ChunkMutant.NO_FENCING: (ONE_CHUNK, NOT_FENCED),
    ChunkMutant.COLLECTS_ANY: (ONE_CHUNK, GONE),
    ChunkMutant.COLLECTS_BEFORE_RUN: (ONE_CHUNK, GONE),
    ChunkMutant.ADOPTS_IN_PLACE: (THREE_RUNS, GONE),
    ChunkMutant.DROPS_TORN_ENTRY: (THREE_RUNS, "a row that was synced is never lost"),
    ChunkMutant.STORE_NOT_SYNCED: (ONE_CHUNK, WRONG_STORE),
    ChunkMutant.ASSEMBLES_EARLY: (Chunks(runs=1), WRONG_STORE),
    ChunkMutant.VERIFIES_AS_PLANNED: (PLANNED_GAP, "a verified store has every chunk of the source"),
}

SNAPSHOT = CutOver(new=(1, 1), runs=1)
BESIDE = CutOver(lines=(NO_LINE, NO_LINE), runs=1, is_beside=True)
CUT_OVERS = {
    "the source as it stands": (CutOver(), 7_000),
    "a snapshot of the source": (SNAPSHOT, 9_000),
    "a snapshot, and no lines for the old stores": (CutOver(new=(1, 1), lines=(NO_LINE, NO_LINE), runs=1), 9_000),
    "new stores with names of their own": (CutOver(lines=(NO_LINE, NO_LINE), is_beside=True), 3_000),
}
TOO_HIGH = "a line never names more than the live store has"
NOWHERE = "old and new store each stand somewhere, once"
NOT_LIVE = "a whole store stands live"
NO_ROW = "what is moved is in the ledger first"
FOREIGN_LINE = "another store's line is as the application left it"
CUT_OVER_MUTANTS = {
    CutOverMutant.TWO_RENAMES: NOT_LIVE,
    CutOverMutant.NO_INTENT: NO_ROW,
    CutOverMutant.INTENT_NOT_SYNCED: NO_ROW,
    CutOverMutant.RESULT_EARLY: NOWHERE,
    CutOverMutant.SIDE_AFTER_EXCHANGE: TOO_HIGH,
    CutOverMutant.SIDE_NOT_LOWERED_BACK: TOO_HIGH,
    CutOverMutant.SIDE_NOT_SYNCED: "the side file is whole",
    CutOverMutant.SIDE_NAME_NOT_SYNCED: TOO_HIGH,
    CutOverMutant.SIDE_IN_PLACE: "nothing foreign stands in the application's directory",
    CutOverMutant.SIDE_WHOLE: FOREIGN_LINE,
    CutOverMutant.RERUN_TRUSTS_LINES: TOO_HIGH,
    CutOverMutant.RERUN_SKIPS_LINES: TOO_HIGH,
    CutOverMutant.RERUN_SYNCS_ITS_OWN: NOWHERE,
    CutOverMutant.RERUN_REPEATS: NOT_LIVE,
    CutOverMutant.FINALIZES_EARLY: "nothing is deleted before the row that says so is durable",
    CutOverMutant.FINALIZES_HALF: "once it is cut over, every new store is live",
    CutOverMutant.LOCKS_PROBED: FOREIGN_LINE,
}
BESIDE_MUTANTS = {
    CutOverMutant.LINE_FIRST: TOO_HIGH,
    CutOverMutant.LINE_LEFT: TOO_HIGH,
    CutOverMutant.FREES_BESIDE: "an old store that nothing takes the place of stays",
    CutOverMutant.RESULT_EARLY: TOO_HIGH,
    CutOverMutant.SIDE_NAME_NOT_SYNCED: TOO_HIGH,
}
STUCK = (CutOverMutant.RERUN_REFUSED, CutOverMutant.ROLLBACK_REFUSED)


@pytest.mark.parametrize("name", CHUNKS)
def test_the_chunk_protocol_loses_nothing_and_always_gets_done(name: str) -> None:
    instance, at_least = CHUNKS[name]
    model = ChunkProtocol(instance)
    found = explore(model)
    print(f"{len(found)} states: {name}")
    assert found.counter_example is None, f"{found.counter_example}"
    assert len(found) > at_least
    assert any(is_finished(state) for state in found)
    assert model.all_finish(found)


def test_what_a_plan_lacks_is_never_verified() -> None:
    found = explore(ChunkProtocol(PLANNED_GAP))
    assert found.counter_example is None, f"{found.counter_example}"
    assert len(found) > 1_000
    assert not any(is_finished(state) for state in found)


@pytest.mark.parametrize("mutant", CHUNK_MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_of_the_chunk_protocol_is_needed(mutant: ChunkMutant) -> None:
    instance, broken = CHUNK_MUTANTS[mutant]
    assert _broken(ChunkProtocol(instance, mutant)) == broken


@pytest.mark.parametrize("name", CUT_OVERS)
def test_the_cut_over_loses_nothing_and_always_ends_on_one_side(name: str) -> None:
    instance, at_least = CUT_OVERS[name]
    model = CutOverProtocol(instance)
    found = explore(model)
    print(f"{len(found)} states: {name}")
    assert found.counter_example is None, f"{found.counter_example}"
    assert len(found) > at_least
    assert any(is_rolled_back(state) for state in found)
    assert any(is_finalized(state) for state in found)
    assert model.all_finish(found)


@pytest.mark.parametrize("mutant", CUT_OVER_MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_of_the_cut_over_is_needed(mutant: CutOverMutant) -> None:
    assert _broken(CutOverProtocol(SNAPSHOT, mutant)) == CUT_OVER_MUTANTS[mutant]


@pytest.mark.parametrize("mutant", BESIDE_MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_of_moving_in_is_needed(mutant: CutOverMutant) -> None:
    assert _broken(CutOverProtocol(BESIDE, mutant)) == BESIDE_MUTANTS[mutant]


def test_a_ledger_that_is_refused_never_gets_done() -> None:
    model = ChunkProtocol(ONE_CHUNK, ChunkMutant.REFUSES_TORN_ENTRY)
    found = explore(model)
    assert found.counter_example is None
    assert not model.all_finish(found)


@pytest.mark.parametrize("mutant", STUCK, ids=lambda mutant: mutant.name)
def test_a_command_that_cannot_be_run_again_leaves_stores_in_between(mutant: CutOverMutant) -> None:
    model = CutOverProtocol(CutOver(runs=0), mutant)
    found = explore(model)
    assert found.counter_example is None
    assert not model.all_finish(found)


def test_every_mutant_is_tried() -> None:
    assert {*CHUNK_MUTANTS, ChunkMutant.REFUSES_TORN_ENTRY} == {*ChunkMutant}
    assert {*CUT_OVER_MUTANTS, *BESIDE_MUTANTS, *STUCK} == {*CutOverMutant}


def _broken(model: Model[S]) -> str | None:
    found = explore(model).counter_example
    print(found)
    return None if found is None else found.invariant


class Steps(Model[int]):
    """Counts by one or by two."""

    def initial(self) -> list[int]:
        return [0]

    def steps(self, state: int) -> list[tuple[str, int]]:
        return [("one", state + 1), ("two", state + 2)] if state < 5 else []

    def broken(self, state: int) -> str | None:
        return "never five" if state == 5 else None

    def broken_by_step(self, before: int, after: int) -> str | None:
        return "never from three to five" if (before, after) == (3, 5) else None


def test_a_counter_example_is_a_shortest_list_of_steps() -> None:
    found = explore(Steps()).counter_example
    assert str(found) == "broken: never from three to five\n  1. one\n  2. two\n  3. two"
