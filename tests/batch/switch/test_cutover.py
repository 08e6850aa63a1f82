"""What a cut-over leaves: the new stores in use, the old ones kept whole, and all else as it was."""

from pathlib import Path

import pytest

from migrate import Spec, cutover, rollback, run, verify
from tests.batch.switch.support import PARTITIONS, TASKS, Application, StopAt, content, lone_records, modes
from tests.support import RAW, make_spec, make_store, read_family, tree_state


def test_the_new_stores_are_live_and_the_old_ones_are_kept_bit_by_bit(app: Application) -> None:
    before = {partition: content(app.live(partition)) for partition in PARTITIONS}
    assert app.standing() == {"old"}
    report = cutover(app.spec)
    assert (report.state, report.old_stores) == ("cut over", app.spec.home / "old")
    assert report.stores == tuple(app.live(partition) for partition in PARTITIONS)
    assert app.standing() == {"new"}
    assert {partition: content(app.shelved(partition)) for partition in PARTITIONS} == before
    assert sorted(app.spec.home.glob("old/*/*")) == sorted(map(app.shelved, PARTITIONS))


def test_nothing_else_in_the_applications_directory_is_touched(app: Application) -> None:
    before = app.files()
    assert {f"{task}/.checkpoint" for task in TASKS} | {"0_0/orders.position", "0_1/rocksdb/customers"} <= set(before)
    cutover(app.spec)
    assert app.files() == before
    rollback(app.spec)
    assert app.files() == before


def test_owner_and_mode_of_the_new_stores_are_those_of_the_old_ones(app: Application) -> None:
    before = {partition: set(modes(app.live(partition))) for partition in PARTITIONS}
    assert {mode for found in before.values() for mode, _, _, _ in found} == {0o750, 0o640}
    cutover(app.spec)
    assert {partition: set(modes(app.live(partition))) for partition in PARTITIONS} == before
    assert {partition: set(modes(app.shelved(partition))) for partition in PARTITIONS} == before


@pytest.mark.parametrize("mode", ["full", "digest"])
def test_verify_compares_the_live_stores_afterwards(mode: str, app: Application) -> None:
    cutover(app.spec)
    report = verify(app.spec, mode="full" if mode == "full" else "digest")
    assert report.stores == tuple(map(app.live, PARTITIONS))
    assert report.verification.records == sum(len(old) for found in app.stores().values() for old in found.values())


def test_a_second_cutover_does_nothing(app: Application) -> None:
    first = cutover(app.spec)
    before = tree_state(app.path)
    watch = StopAt()
    second = cutover(app.spec, on_event=watch)
    assert second == first
    assert not watch.seen
    report = run(app.spec)
    assert (report.state, report.new_stores) == ("cut over", tuple(map(app.live, PARTITIONS)))
    assert "already migrated" in report.next_step
    assert tree_state(app.path) == before
    assert app.steps() == ["cutting-over", "cut-over"]


def test_every_event_of_a_switch_is_sent_in_order(app: Application) -> None:
    watch = StopAt()
    cutover(app.spec, on_event=watch)
    each = len(PARTITIONS)
    assert list(watch.seen.items()) == [
        ("cutover.started", 1),
        ("cutover.checked", 1),
        ("cutover.intended", 1),
        ("cutover.positioned", 1),
        ("cutover.exchanged", each),
        ("cutover.old-set-aside", 1),
        ("cutover.done", 1),
        ("cutover.committed", 1),
    ]


def test_a_lone_rocksdb_directory_is_exchanged_itself(lone: Spec) -> None:
    live = lone.source_path
    before, beside = content(live), {path.name for path in live.parent.iterdir()}
    cutover(lone)
    assert read_family(live) == lone_records()
    assert content(live) != before
    assert content(lone.home / "old" / "state") == before
    assert verify(lone).verification.records == len(lone_records())
    rollback(lone)
    assert content(live) == before
    assert {path.name for path in live.parent.iterdir()} == beside


def test_the_whole_may_be_moved_elsewhere_between_cutover_and_rollback(folder: Path) -> None:
    """Paths in a spec are relative to it, and so is what the ledger says."""

    def spec_in(base: Path) -> Spec:
        return make_spec(base, Path("state"), source_format=RAW, target_format=RAW, target={"path": None})

    here, there = folder / "here", folder / "there"
    before = content(make_store(here / "state", lone_records()))
    run(spec_in(here))
    cutover(spec_in(here))
    here.rename(there)
    assert verify(spec_in(there)).stores == (there / "state",)
    assert rollback(spec_in(there)).state == "rolled back"
    assert content(there / "state") == before
