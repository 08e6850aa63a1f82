"""Going back: the old stores stand as if nothing had been; what the new ones were given is not lost silently."""

import shutil
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, cutover, rollback, run, status, verify
from tests.batch.switch.support import (
    DATA,
    FIRST,
    PARTITIONS,
    TASKS,
    Application,
    content,
    lone_records,
    modes,
    write_to,
)
from tests.support import raises, read_family, tree_state


def test_the_old_stores_are_back_bit_by_bit(app: Application) -> None:
    before = {partition: content(app.live(partition)) for partition in PARTITIONS}
    owners = {partition: set(modes(app.live(partition))) for partition in PARTITIONS}
    cutover(app.spec)
    report = rollback(app.spec)
    assert (report.state, report.old_stores) == ("rolled back", None)
    assert {partition: content(app.live(partition)) for partition in PARTITIONS} == before
    assert {partition: set(modes(app.live(partition))) for partition in PARTITIONS} == owners
    assert [path for path in (app.spec.home / "old").rglob("*") if path.is_file()] == []
    assert status(app.spec).state == "rolled back"


def test_a_second_rollback_does_nothing(app: Application) -> None:
    cutover(app.spec)
    first = rollback(app.spec)
    before = tree_state(app.path)
    assert rollback(app.spec) == first
    assert tree_state(app.path) == before
    assert app.steps() == ["cutting-over", "cut-over", "rolling-back", "rolled-back"]


def test_back_and_forth_again(app: Application) -> None:
    before = {partition: content(app.live(partition)) for partition in PARTITIONS}
    for _ in range(2):
        cutover(app.spec)
        assert app.standing() == {"new"}
        rollback(app.spec)
    assert {partition: content(app.live(partition)) for partition in PARTITIONS} == before
    assert run(app.spec).state == "verified"
    assert verify(app.spec).verification.ok
    assert cutover(app.spec).state == "cut over"


def test_writes_to_a_new_store_are_discarded_only_on_request(app: Application) -> None:
    cutover(app.spec)
    write_to(app.live(FIRST), family=DATA)
    before = tree_state(app.path)
    with pytest.raises(
        RefusedError, match=r"1 of 4 new stores were written to since the cut-over \(0_0/orders\)"
    ) as no:
        rollback(app.spec)
    assert "--discard-new-writes" in no.value.hint
    assert tree_state(app.path) == before
    assert status(app.spec).state == "cut over"
    rollback(app.spec, discard_new_writes=True)
    assert app.standing() == {"old"}


def test_after_a_discard_the_new_store_is_assembled_again_before_the_next_cutover(app: Application) -> None:
    cutover(app.spec)
    write_to(app.live(FIRST), family=DATA)
    rollback(app.spec, discard_new_writes=True)
    before = tree_state(app.path)
    assert "stateferry run" in raises(RefusedError, "not complete", cutover, app.spec).hint
    assert tree_state(app.path) == before
    assert run(app.spec).state == "verified"
    cutover(app.spec)
    assert app.standing() == {"new"}


def test_a_new_store_that_is_gone_has_to_be_given_up_by_name(app: Application) -> None:
    cutover(app.spec)
    shutil.rmtree(app.live(FIRST))
    raises(RefusedError, "are not where the cut-over put them", rollback, app.spec)
    rollback(app.spec, discard_new_writes=True)
    assert app.standing() == {"old"}


def test_an_old_store_that_is_missing_is_refused(app: Application, folder: Path) -> None:
    cutover(app.spec)
    app.shelved(FIRST).rename(folder / "elsewhere")
    before = tree_state(app.path)
    raises(RefusedError, "is neither in", rollback, app.spec)
    assert tree_state(app.path) == before
    (folder / "elsewhere").rename(app.shelved(FIRST))
    rollback(app.spec)
    assert app.standing() == {"old"}


def test_the_old_stores_position_goes_back_as_far_as_its_records(app: Application) -> None:
    """The new version of the application ran, and moved every line of the tasks on."""
    before = {task: app.checkpoint(task).read_text() for task in TASKS}
    positions = {path: path.read_text() for path in app.path.glob("*/*.position")}
    cutover(app.spec)
    for partition in PARTITIONS:
        write_to(app.live(partition), family=DATA)
    for task in TASKS:
        moved = [_raised(line) for line in app.checkpoint(task).read_text().splitlines()]
        app.checkpoint(task).write_text("\n".join([*moved, ""]))
    (app.path / "0_0" / "orders.position").write_text("0\n0\n")
    rollback(app.spec, discard_new_writes=True)
    for task in TASKS:
        for now, then in zip(app.checkpoint(task).read_text().splitlines(), before[task].splitlines(), strict=True):
            is_theirs = "customers" in then or "payments" in then
            assert now == (_raised(then) if is_theirs else then)
    assert {path: path.read_text() for path in app.path.glob("*/*.position")} == positions


def _raised(line: str) -> str:
    *topic, offset = line.split(" ")
    return " ".join([*topic, str(int(offset) + 5000)]) if len(topic) == 2 else line


def test_a_lone_directory_that_was_written_to(lone: Spec) -> None:
    cutover(lone)
    write_to(lone.source_path)
    raises(RefusedError, "1 of 1 new stores were written to", rollback, lone)
    rollback(lone, discard_new_writes=True)
    assert read_family(lone.source_path) == lone_records()
