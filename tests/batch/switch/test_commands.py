"""The verbs as an operator calls them: exit codes, and what is said."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate.errors import ExitCode
from tests.bad_input.support import Migration, app_migration, check_clear, expected_orders
from tests.batch.switch.support import DATA, write_to
from tests.shared.commands import CommandServer, Outcome
from tests.support import read_family, tree_state

ORDERS = "0_0/rocksdb/orders"
MARKER = "stateferry-folder.json"


@pytest.fixture
def orders(commands: CommandServer, folder: Path) -> Migration:
    """The store `orders` of a real application, whose new one takes the old one's place."""
    migration = app_migration(commands, folder)
    del migration.spec["target"]["path"]
    return migration


def done(outcome: Outcome, *said: str) -> str:
    assert (outcome.code, outcome.err) == (ExitCode.DONE, "")
    text = " ".join(outcome.out.split())
    for words in said:
        assert words in text
    return text


def refused(orders: Migration, verb: str, *said: str, options: tuple[str, ...] = ()) -> None:
    """Exit 6, and nothing moved."""
    before = tree_state(orders.source)
    check_clear(orders.run(*options, verb=verb), ExitCode.REFUSED, *orders.named(*said))
    assert tree_state(orders.source) == before


def test_from_run_to_the_end(orders: Migration) -> None:
    refused(orders, "cutover", "has not begun", "stateferry run SPEC")
    refused(orders, "finalize", "has not begun")
    done(orders.run(), *orders.named("with the application still stopped: stateferry cutover SPEC puts the new stores"))
    refused(orders, "rollback", "nothing of 'test' was cut over")
    refused(orders, "finalize", "is not cut over yet")
    done(orders.run(verb="cutover"), "cut over", "start the new version of the application", str(orders.home / "old"))
    done(orders.run(verb="cutover"), "cut over")
    done(orders.run(), "already migrated")
    done(orders.run(verb="status"), "cut over")
    done(orders.run("--no-spark", "--quiet", verb="verify"), "records equal", str(orders.source / ORDERS))
    for path, records in expected_orders().items():
        assert read_family(orders.source / path, DATA) == records
    refused(orders, "abandon", "holds old stores")
    done(orders.run(verb="rollback"), "rolled back", "start the old version of the application")
    refused(orders, "finalize", "is not cut over yet")
    done(orders.run(verb="cutover"), "cut over")
    done(orders.run(verb="finalize"), "finalized")
    done(orders.run(), "already migrated")
    done(orders.run(verb="status"), "finalized")
    refused(orders, "rollback", "the old stores are gone")
    refused(orders, "abandon", "in use")
    refused(orders, "verify", "is finalized", options=("--no-spark",))


def test_old_stores_that_no_ledger_records_are_moved_by_hand(orders: Migration) -> None:
    before = tree_state(orders.source / ORDERS)
    done(orders.run("--cutover"))
    shutil.rmtree(orders.home / "ledger")
    refused(orders, "abandon", str(orders.home / "old"), "move each old store to its place", str(orders.source))
    for current in sorted((orders.home / "old").rglob("CURRENT")):
        task, store = current.parent.relative_to(orders.home / "old").parts
        place = orders.source / task / "rocksdb" / store
        shutil.rmtree(place)
        current.parent.rename(place)
    assert tree_state(orders.source / ORDERS) == before
    done(orders.run(verb="abandon"), "removed", str(orders.home))
    assert not orders.home.exists()
    done(orders.run(verb="abandon"), "the folder did not exist")
    done(orders.run("--cutover"), "cut over")


def test_a_snapshot_that_has_gone_is_named_and_taken_again(orders: Migration) -> None:
    done(orders.run())
    shutil.rmtree(orders.home / "snapshot")
    refused(orders, "verify", str(orders.home / "snapshot"), "is missing", options=("--no-spark",))
    refused(orders, "cutover", "is missing", "stateferry run SPEC takes it again")
    done(orders.run("--cutover"), "cut over")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["plan-0001.json", MARKER, "run.lock"])
def test_what_has_the_name_of_a_file_and_is_none_is_refused(
    name: str, make: Callable[[Path], None], orders: Migration
) -> None:
    done(orders.run())
    file = orders.home / name
    file.unlink()
    make(file)
    for verb in ("status", "run", "cutover", "abandon"):
        refused(orders, verb, str(file), "where a regular file belongs")
    file.rmdir() if file.is_dir() else file.unlink()
    if name == MARKER:
        file.touch()
    done(orders.run("--cutover"), "cut over")


def test_run_with_cutover_does_both_and_may_be_repeated(orders: Migration) -> None:
    report = json.loads(done(orders.run("--cutover", "--json")))
    assert (report["state"], len(report["stores"])) == ("cut over", 3)
    before = tree_state(orders.source)
    assert json.loads(done(orders.run("--cutover", "--json"))) == report
    done(orders.run("--cutover"), "already migrated", "start the new version")
    assert tree_state(orders.source) == before


def test_new_writes_are_discarded_by_their_option_alone(orders: Migration) -> None:
    done(orders.run("--cutover"))
    write_to(orders.source / ORDERS, family=DATA)
    refused(orders, "rollback", "1 of 3 new stores were written to since the cut-over", "--discard-new-writes")
    next_step = orders.named(
        "next start the old version of the application; until it has written to the old stores: "
        "stateferry run SPEC makes the discarded new stores again; from then on: stateferry abandon SPEC"
    )
    done(orders.run("--discard-new-writes", verb="rollback"), "rolled back", *next_step)
    done(orders.run(verb="status"), "rolled back", *next_step)
    refused(orders, "cutover", "are not complete", "stateferry run SPEC")
    done(orders.run())
    done(orders.run(verb="status"), "verified", *orders.named("stateferry cutover SPEC"))
    done(orders.run("--cutover"), "cut over")


def test_a_snapshot_is_migrated_and_cut_over(orders: Migration) -> None:
    check_clear(orders.run(verb="snapshot"), ExitCode.USAGE, 'source = "snapshot"')
    orders.set("run", source="snapshot")
    refused(orders, "run", "there is no snapshot", "stateferry snapshot SPEC", options=())
    done(orders.run(verb="snapshot"), "delete.retention.ms", "start the application again")
    done(orders.run(verb="status"), "snapshot taken")
    write_to(orders.source / ORDERS)
    done(orders.run(), "delete.retention.ms")
    refused(orders, "snapshot", "has begun", "stateferry abandon SPEC")
    done(orders.run(verb="cutover"), "cut over")
    assert read_family(orders.source / ORDERS, DATA) == expected_orders()[ORDERS]
