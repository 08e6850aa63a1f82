"""A store of a real application gets another name, and its records stay the same."""

from dataclasses import replace

import pytest

from tests.live.changelog.app import App, Program
from tests.live.changelog.migrating import (
    Migration,
    assert_finds,
    assert_finds_and_restores,
    assert_holds,
    make_state,
    some_inputs,
)
from tests.live.changelog.model import rows_after, send

OLD, NEW = "KSTREAM-AGGREGATE-STATE-STORE-0000000002", "KSTREAM-AGGREGATE-STATE-STORE-0000000003"


@pytest.mark.parametrize(
    ("version", "exactly_once", "kind"),
    [
        ("4.3.1", True, "timestamped-key-value"),
        ("4.0.1", False, "timestamped-window"),
        ("4.3.1", False, "headers-key-value"),
        ("4.0.1", True, "key-value"),
    ],
)
def test_a_new_name_and_back(old: Program, version: str, exactly_once: bool, kind: str) -> None:
    inputs, more = some_inputs(1000, 200), some_inputs(50, 50, seed=2)
    old = make_state(replace(old, version=version, exactly_once=exactly_once, kind=kind, store=OLD), inputs)
    new, rows = replace(old, store=NEW), rows_after(kind, inputs)
    migration = Migration(old, new).write()
    migration.perform("run")
    migration.perform("cutover")
    assert_finds_and_restores(new, rows)
    with App(new) as app:
        send(new.bootstrap, new.input, more)
        assert_holds(app, rows_after(kind, more, before=rows))
        assert app.restored == 0
        app.stop()
    migration.perform("rollback")
    assert_finds_and_restores(old, rows_after(kind, [*inputs, *more]))


@pytest.mark.parametrize("version", ["4.3.1", "4.0.1"])
def test_a_store_without_a_changelog_gets_a_new_name_on_disk(old: Program, version: str) -> None:
    inputs = some_inputs(1000, 200)
    old = make_state(replace(old, version=version, store=OLD, logged=False), inputs)
    migration = Migration(old, replace(old, store=NEW)).write()
    migration.perform("run")
    migration.perform("cutover")
    assert_finds(migration.new, rows_after(old.kind, inputs), restored=0)
    migration.perform("rollback", "--discard-new-writes")
    assert_finds(old, rows_after(old.kind, inputs), restored=0)
