"""Every way, guarantee and kind of store: nothing is restored, and what is rebuilt is the same."""

from dataclasses import replace

import pytest

from tests.live.changelog.app import App, Program
from tests.live.changelog.migrating import (
    Migration,
    assert_finds_and_restores,
    assert_holds,
    make_state,
    some_inputs,
    there_and_back,
)
from tests.live.changelog.model import migrated, rows_after, send

WINDOWED = "timestamped-window"
TIMESTAMPED = "timestamped-key-value"


@pytest.mark.parametrize(
    ("version", "exactly_once", "kind", "keys"),
    [
        ("4.3.1", True, TIMESTAMPED, 20_000),
        ("4.3.1", False, TIMESTAMPED, 20_000),
        ("4.0.1", True, TIMESTAMPED, 20_000),
        ("4.0.1", False, TIMESTAMPED, 20_000),
        ("4.3.1", True, WINDOWED, 3000),
        ("4.0.1", False, WINDOWED, 3000),
        ("4.3.1", True, "headers-key-value", 3000),
        ("4.3.1", False, "headers-key-value", 3000),
    ],
)
def test_a_new_schema_in_a_new_topic_and_back(
    old: Program, version: str, exactly_once: bool, kind: str, keys: int
) -> None:
    there_and_back(replace(old, version=version, exactly_once=exactly_once, kind=kind), keys)


@pytest.mark.parametrize(("version", "exactly_once"), [("4.0.1", False), ("4.3.1", True)])
def test_a_new_schema_appended_and_back(old: Program, version: str, exactly_once: bool) -> None:
    inputs = some_inputs(3000, 600)
    old = make_state(replace(old, version=version, exactly_once=exactly_once), inputs)
    new = old.next_version(store=old.store)
    migration = Migration(old, new).write()
    migration.perform("run")
    migration.perform("cutover")
    after = migrated(rows_after(old.kind, inputs))
    assert_finds_and_restores(new, after)
    migration.perform("rollback")
    assert_finds_and_restores(old, rows_after(old.kind, inputs))


@pytest.mark.parametrize("has_new_schema", [False, True])
def test_each_timestamp_is_that_of_the_changelog(old: Program, has_new_schema: bool) -> None:
    inputs = some_inputs(3000, 600)
    old = make_state(replace(old, kind="key-value"), inputs)
    new = old.next_version(kind=TIMESTAMPED) if has_new_schema else replace(old, kind=TIMESTAMPED)
    migration = Migration(old, new, timestamps="changelog").write()
    migration.perform("run")
    migration.perform("cutover")
    after = migrated(rows_after(TIMESTAMPED, inputs), new.schema_id)
    assert_finds_and_restores(new, after)


def test_a_task_moves_to_an_instance_that_never_had_the_old_store(old: Program) -> None:
    inputs = some_inputs(3000, 600)
    old = make_state(replace(old, standbys=1), inputs)
    new = old.next_version()
    migration = Migration(old, new).write()
    migration.perform("run")
    migration.perform("cutover")
    after = migrated(rows_after(old.kind, inputs))
    with App(new) as first, App(new.elsewhere()) as second:
        first.wait_active(1)
        second.wait_active(1)
        assert first.dump() | second.dump() == after
        second.wait_loaded(len(after))
        assert (first.restored, first.loaded) == (0, 0)
        restored = second.restored
        first.stop()
        second.wait_active(2)
        assert_holds(second, after)
        assert second.restored == restored
        second.stop()


@pytest.mark.parametrize(
    ("version", "exactly_once", "kind"),
    [("4.3.1", True, TIMESTAMPED), ("4.0.1", False, TIMESTAMPED), ("4.3.1", False, WINDOWED)],
)
def test_what_is_written_during_the_run_is_caught_up(old: Program, version: str, exactly_once: bool, kind: str) -> None:
    inputs, meanwhile, last = some_inputs(3000, 600), some_inputs(4000, 2000, seed=2), some_inputs(100, 100, seed=3)
    old = make_state(replace(old, version=version, exactly_once=exactly_once, kind=kind), inputs)
    new = old.next_version()
    migration = Migration(old, new, source="snapshot").write()
    migration.perform("snapshot")
    with App(old) as app:
        send(old.bootstrap, old.input, meanwhile)
        app.wait_caught_up()
        migration.perform("run")
        migration.perform("catch-up")
        send(old.bootstrap, old.input, last)
        app.wait_caught_up()
        app.stop()
    migration.perform("catch-up")
    migration.perform("cutover")
    after = migrated(rows_after(kind, [*inputs, *meanwhile, *last]))
    assert_finds_and_restores(new, after)
