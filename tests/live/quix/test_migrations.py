"""State of Quix Streams and its changelog, migrated, restarted, rebuilt and taken back, by the real Quix Streams."""

import shutil
from pathlib import Path

import pytest

from migrate import RefusedError, cutover, inspect, plan, rollback, run, verify
from tests.broker.broker import Broker
from tests.live.quix.migrating import App, as_new, inputs_of, sums_of
from tests.support import raises, read_families

DAY = 86_400


@pytest.mark.parametrize(
    ("guarantee", "ttl_seconds"), [("at-least-once", 0), ("exactly-once", DAY)], ids=["plain", "expiring"]
)
def test_the_new_version_goes_on_and_rebuilds_and_the_old_one_after_the_way_back(
    guarantee: str, ttl_seconds: int, broker: Broker, tmp_path: Path
) -> None:
    app = App.make(broker.bootstrap, tmp_path, f"quix-{guarantee}", guarantee=guarantee, ttl_seconds=ttl_seconds)
    first, second = inputs_of(3), inputs_of(5)
    app.settings.run(app.send(first))
    assert app.sums() == sums_of(first)
    old = app.records()
    assert plan(app.spec).verdict.exit_code == 0
    assert run(app.spec).verification.ok
    assert verify(app.spec).verification.ok
    cutover(app.spec)
    migrated = read_families(app.settings.partition(0)), app.records()
    assert app.sums() == as_new(sums_of(first))
    new = app.settings.new
    assert new.run() == 0
    assert (read_families(app.settings.partition(0)), app.records()) == migrated
    app.wipe()
    assert new.run() > 0
    assert app.records() == migrated[1]
    new.run(app.send(second))
    assert app.sums() == as_new(sums_of(first, second))

    rollback(app.spec)
    assert app.records() == old
    app.settings.run(len(second))
    assert app.sums() == sums_of(first, second)
    app.wipe()
    assert app.settings.run() > 0
    assert app.sums() == sums_of(first, second)
    assert inspect(app.settings.home).stores[0].unsupported is None


def test_a_store_that_is_behind_its_changelog_is_refused(broker: Broker, tmp_path: Path) -> None:
    app = App.make(broker.bootstrap, tmp_path, "quix-behind")
    app.settings.run(app.send(inputs_of(3)))
    shutil.copytree(app.settings.home, tmp_path / "before")
    app.settings.run(app.send(inputs_of(5)))
    app.wipe()
    shutil.move(tmp_path / "before", app.settings.home)
    error = raises(RefusedError, r"default is \d+ records? behind", run, app.spec)
    assert "cleanly" in error.hint


def test_a_store_without_a_changelog_is_refused_with_one(broker: Broker, tmp_path: Path) -> None:
    """The application was made with use_changelog_topics=False."""
    app = App.make(broker.bootstrap, tmp_path, "quix-unlogged", has_changelog=False)
    app.settings.run(app.send(inputs_of(3)))
    error = raises(RefusedError, f"the changelog {app.settings.changelog} does not exist", run, app.spec)
    assert "leave [changelog] out only where the store has no changelog" in error.hint
