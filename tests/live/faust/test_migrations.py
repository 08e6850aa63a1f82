"""A table of a real application gets values of another form, together with its changelog."""

import re
from pathlib import Path

import pytest

from formats.partitioners import default_partition
from migrate import RefusedError, StoreLockedError, catch_up, cutover, plan, rollback, run, snapshot, verify
from tests.broker.broker import Broker
from tests.live.faust.kills import go_on
from tests.live.faust.migrating import Migration, make_state
from tests.live.faust.program import PARTITIONS, Settings
from tests.live.faust.worker import Worker, assert_finds, rows_after, send, some_inputs


@pytest.fixture
def old(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """The old version, which has not run yet."""
    return Settings(broker.bootstrap, re.sub(r"\W+", "-", request.node.name).strip("-"), tmp_path / "data")


@pytest.mark.parametrize("table", ["counts", "counts-v2"], ids=["append", "new-topic"])
def test_there_and_back(old: Settings, table: str) -> None:
    inputs, more = some_inputs(200, 60), some_inputs(250, 20, seed=2)
    make_state(old, inputs)
    new = old.next_version(table)
    spec = Migration(old, new).spec()
    assert plan(spec).verdict.exit_code == 0
    assert run(spec).verification.ok
    assert verify(spec).verification.ok
    cutover(spec)
    assert_finds(new.elsewhere(), rows_after(inputs, is_new=True), restores=True)
    with Worker(new) as worker:
        worker.wait_holds(rows_after(inputs, is_new=True))
        assert worker.restored == 0
        send(new, more)
        worker.wait_holds(rows_after([*inputs, *more], is_new=True))
        worker.stop()
    assert_finds(new.elsewhere(), rows_after([*inputs, *more], is_new=True), restores=True)

    rollback(spec)
    assert_finds(old, rows_after([*inputs, *more]), restores=table == old.table)
    assert_finds(old.elsewhere(), rows_after([*inputs, *more]), restores=True)


def test_a_table_is_converted_while_its_application_runs(old: Settings) -> None:
    """From a snapshot of it; what came since is caught up with, once it has stopped."""
    inputs, more = some_inputs(200, 60), some_inputs(250, 40, seed=2)
    new = old.next_version("counts-v2")
    spec = Migration(old, new, "snapshot").spec()
    make_state(old, inputs)
    snapshot(spec)
    with Worker(old) as worker:
        send(old, more)
        worker.wait_holds(rows_after([*inputs, *more]))
        assert run(spec).verification.ok
        with pytest.raises(StoreLockedError):
            cutover(spec)
        worker.stop()
    catch_up(spec)
    cutover(spec)
    assert_finds(new, rows_after([*inputs, *more], is_new=True), restores=False)
    assert_finds(new.elsewhere(), rows_after([*inputs, *more], is_new=True), restores=True)


def test_what_a_killed_application_left_in_its_changelog_is_restored_first(old: Settings) -> None:
    inputs, more = some_inputs(50, 10), some_inputs(60, 10, seed=2)
    make_state(old, inputs)
    go_on(old, more)  # as one that was killed before it stated the offset
    new = old.next_version("counts")
    spec = Migration(old, new).spec()
    with pytest.raises(RefusedError, match=r"counts is \d+ records behind") as refused:
        run(spec)
    assert "cleanly" in refused.value.hint
    assert_finds(old, rows_after([*inputs, *more]), restores=True)
    run(spec)
    cutover(spec)
    assert_finds(new, rows_after([*inputs, *more], is_new=True), restores=False)


@pytest.mark.parametrize("table", ["counts", "counts-v2"], ids=["append", "new-topic"])
def test_a_partition_that_never_had_a_record_stays_empty(old: Settings, table: str) -> None:
    inputs = [(key, value) for key, value in some_inputs(40, 0) if default_partition(key.encode(), PARTITIONS) == 0]
    make_state(old, inputs)
    new = old.next_version(table)
    spec = Migration(old, new).spec()
    run(spec)
    cutover(spec)
    for settings in (new, new.elsewhere()):
        assert_finds(settings, rows_after(inputs, is_new=True), restores=settings is not new)
