"""New stores with names of their own: moved in beside the old ones, which stay, and out again, killed at any point."""

import shutil
from pathlib import Path

import pytest

from migrate import RefusedError, cutover, finalize, rollback, status
from migrate.batch.ledger.standing import read_standing
from migrate.batch.ledger.table import Ledger
from migrate.model.journal import Exchange
from migrate.model.ledger_row import Step
from migrate.model.store_partition import ChangelogOffsets
from migrate.systems.checkpoint_file import format_checkpoint
from tests.batch.switch.support import (
    DATA,
    PARTITIONS,
    Application,
    StopAt,
    StoppedError,
    content,
    new_records,
    write_to,
)
from tests.support import raises, read_families, tree_state

CUTOVER = ["positioned", "exchanged", "old-set-aside", "done", "committed"]
ROLLBACK = ["started", "intended", "positioned", "exchanged", "done", "committed"]
LAST = 41


@pytest.fixture
def begun(app: Application) -> Application:
    """A cut-over that is in the ledger, and has moved nothing yet: each new store is to be `<store>-v2`."""
    raises(StoppedError, "", cutover, app.spec, on_event=StopAt("cutover.intended"))
    standing = read_standing(app.spec.home)
    journal = standing.journal.model_copy(update={"exchanges": tuple(map(_renamed, standing.journal.exchanges))})
    ledger = Ledger(app.spec.home, standing.rows[-1].migration_id, "0123456789ab", command="switch")
    ledger.commit(ledger.row(Step.CUTTING_OVER, detail=journal.model_dump(mode="json")))
    return app


def _renamed(entry: Exchange) -> Exchange:
    old = entry.partition
    store = f"{old.store}-v2"
    new = old.model_copy(update={"store": store, "path": old.path.with_name(store)})
    number = int(old.task[-1])
    after = ChangelogOffsets(lines=((f"orders-app-{store}-changelog", number, LAST),), own_file="0\n0\n")
    return entry.model_copy(update={"new_partition": new, "after": after})


def _new(app: Application, partition: str) -> Path:
    return app.live(partition).with_name(f"{app.live(partition).name}-v2")


def _is_moved_in(app: Application) -> bool:
    """Whether every new store is there, whole, beside every old one, with its position, and without it otherwise."""
    assert app.standing() == {"old"}
    there = {_new(app, partition).exists() for partition in PARTITIONS}
    assert len(there) == 1
    for partition in PARTITIONS if there == {True} else ():
        assert read_families(_new(app, partition)) == new_records(partition)
        assert app.offset(f"{partition}-v2") == LAST
    return there == {True}


def _rest(app: Application) -> dict[str, tuple[int | str, ...]]:
    """Every other file of the application; a `.checkpoint` may be written anew."""
    return {name: state[1:] for name, state in app.files().items()}


def _check_lines(app: Application) -> None:
    """A new store's line is never there without the store."""
    for partition in PARTITIONS:
        assert app.offset(f"{partition}-v2") is None or _new(app, partition).is_dir()


@pytest.mark.parametrize("event", CUTOVER)
def test_a_killed_move_in_is_finished_by_the_next_cutover(event: str, begun: Application) -> None:
    old = {partition: content(begun.live(partition)) for partition in PARTITIONS}
    lines = {partition: begun.offset(partition) for partition in PARTITIONS}
    raises(StoppedError, "", cutover, begun.spec, on_event=StopAt(f"cutover.{event}", 2 if event == "exchanged" else 1))
    _check_lines(begun)
    assert cutover(begun.spec, on_event=StopAt(look=lambda _: _check_lines(begun))).state == "cut over"
    assert _is_moved_in(begun)
    assert {partition: content(begun.live(partition)) for partition in PARTITIONS} == old
    assert {partition: begun.offset(partition) for partition in PARTITIONS} == lines


@pytest.mark.parametrize("event", CUTOVER[:-1])
def test_a_half_done_move_in_is_taken_back(event: str, begun: Application) -> None:
    before = _rest(begun)
    raises(StoppedError, "", cutover, begun.spec, on_event=StopAt(f"cutover.{event}", 2 if event == "exchanged" else 1))
    assert rollback(begun.spec, on_event=StopAt(look=lambda _: _check_lines(begun))).state == "rolled back"
    assert not _is_moved_in(begun)
    assert _rest(begun) == before


@pytest.mark.parametrize("event", ROLLBACK)
def test_a_killed_move_out_is_finished_by_the_next_rollback(event: str, begun: Application) -> None:
    before = _rest(begun)
    cutover(begun.spec)
    with pytest.raises(StoppedError):
        rollback(begun.spec, on_event=StopAt(f"rollback.{event}", 2 if event == "exchanged" else 1))
    _check_lines(begun)
    assert rollback(begun.spec, on_event=StopAt(look=lambda _: _check_lines(begun))).state == "rolled back"
    assert not _is_moved_in(begun)
    assert _rest(begun) == before
    assert all(begun.staged(partition).is_dir() for partition in PARTITIONS)


@pytest.mark.parametrize(("event", "said"), [("", "hold other stores"), ("cutover.positioned", "is there already")])
def test_a_name_that_is_taken_is_refused_and_stays(event: str, said: str, begun: Application) -> None:
    taken = _new(begun, PARTITIONS[1])

    def take(at: str) -> None:
        if at == event:
            shutil.copytree(begun.live(PARTITIONS[1]), taken)
            (taken / "IDENTITY").write_text("theirs")

    take("")
    raises(RefusedError, said, cutover, begun.spec, on_event=StopAt(look=take))
    before = tree_state(taken)
    rollback(begun.spec)
    assert tree_state(taken) == before


def test_a_position_that_the_new_version_dropped_is_there_again_after_a_rollback(begun: Application) -> None:
    """Kafka Streams writes the lines of the stores that it knows."""
    before = {partition: begun.offset(partition) for partition in PARTITIONS}
    cutover(begun.spec)
    for task in ("0_0", "0_1"):
        begun.checkpoint(task).unlink()
    rollback(begun.spec)
    assert {partition: begun.offset(partition) for partition in PARTITIONS} == before


def test_an_old_store_that_its_owner_removed_is_restored_by_it(begun: Application) -> None:
    cutover(begun.spec)
    shutil.rmtree(begun.live(PARTITIONS[0]))
    assert rollback(begun.spec).state == "rolled back"
    assert begun.offset(PARTITIONS[0]) is None
    assert begun.offset(PARTITIONS[1]) is not None


def test_an_old_store_that_went_on_is_left_as_it_is_on_request(begun: Application) -> None:
    cutover(begun.spec)
    write_to(begun.live(PARTITIONS[0]))
    begun.checkpoint("0_0").write_text(format_checkpoint([("orders-app-orders-changelog", 0, 5000)]))
    error = raises(RefusedError, "is not as it was at the cut-over", rollback, begun.spec)
    assert "--discard-new-writes leaves it" in error.hint
    rollback(begun.spec, discard_new_writes=True)
    assert begun.offset(PARTITIONS[0]) == 5000
    assert read_families(begun.live(PARTITIONS[0]))["default"][b"late"] == b"x" * 20


def test_what_the_new_stores_got_since_is_not_lost_unasked(begun: Application) -> None:
    cutover(begun.spec)
    write_to(_new(begun, PARTITIONS[0]), family=DATA)
    raises(RefusedError, "going back loses that", rollback, begun.spec)
    raises(StoppedError, "", rollback, begun.spec, discard_new_writes=True, on_event=StopAt("rollback.done"))
    rollback(begun.spec)
    assert not _is_moved_in(begun)
    assert not list(begun.spec.home.glob(f"new/*/{PARTITIONS[0]}"))


def test_a_new_store_that_is_gone_is_told_from_one_that_was_moved_out(begun: Application) -> None:
    cutover(begun.spec)
    shutil.rmtree(_new(begun, PARTITIONS[0]))
    raises(RefusedError, "1 of 4 new stores are not where", rollback, begun.spec)
    assert rollback(begun.spec, discard_new_writes=True).state == "rolled back"


def test_finalizing_leaves_the_old_stores_which_nothing_took_the_place_of(begun: Application) -> None:
    cutover(begun.spec)
    before = tree_state(begun.path)
    assert finalize(begun.spec).state == status(begun.spec).state == "finalized"
    assert tree_state(begun.path) == before
    assert not (begun.spec.home / "new").exists()
    refused = raises(RefusedError, "the old stores are where they were", rollback, begun.spec)
    assert "start the old version" in str(refused.hint)
