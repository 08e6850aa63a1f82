"""A table of a real application gets values of another form, together with its changelog."""

import re
from pathlib import Path

import pytest

from migrate import cutover, plan, rollback, run, verify
from tests.broker.broker import Broker
from tests.live.faust.migrating import Migration, make_state
from tests.live.faust.program import Settings
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
