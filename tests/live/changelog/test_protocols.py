"""An application that runs on another host is noticed by its group, of whichever protocol."""

from dataclasses import replace

import pytest

from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from tests.broker.topics import ends_of
from tests.live.changelog.app import App, Program
from tests.live.changelog.migrating import Migration, assert_finds, make_state, some_inputs
from tests.live.changelog.model import rows_after


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_an_application_that_runs_elsewhere_is_noticed(old: Program, protocol: str) -> None:
    inputs = some_inputs(300, 60)
    old = make_state(replace(old, protocol=protocol, exactly_once=True), inputs)
    new = old.next_version(store=old.store)  # appended: the topic of the application that runs
    migration = Migration(old, new).write()
    before = _at_the_broker(old)
    with App(old.elsewhere()) as app:
        app.wait_caught_up()
        assert "the application runs" in migration.refuse("run")
        assert _at_the_broker(old) == before
        app.stop()
    migration.perform("run")
    with App(new.elsewhere()) as app:
        app.wait_caught_up()
        assert "the application runs" in migration.refuse("cutover")
        app.stop()
    migration.perform("cutover")
    with App(new.elsewhere()) as app:
        app.wait_caught_up()
        assert "the application runs" in migration.refuse("rollback")
        app.stop()
    migration.perform("rollback")
    assert_finds(old, rows_after(old.kind, inputs), restored=0)


def _at_the_broker(program: Program) -> object:
    """Where the changelog ends, and what the group has committed."""
    with Cluster(Connection(program.bootstrap)) as cluster:
        return ends_of(program.bootstrap, program.changelog), cluster.committed(program.application_id)
