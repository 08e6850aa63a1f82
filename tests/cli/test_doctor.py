"""`doctor` without Spark: a list with fixes, exit codes, and nothing left behind."""

import json
from pathlib import Path

import pytest

from migrate.batch.preflight.check import SPARK_CHECKS
from migrate.batch.preflight.doctor import doctor
from migrate.errors import ExitCode
from tests.bad_input.conftest import app, folder, memory
from tests.bad_input.support import Migration
from tests.shared.commands import CommandServer
from tests.shared.locks import LOCK_FILE, another_process
from tests.support import copy_fixture, kafka_spec, tree_state

__all__ = ["CommandServer", "app", "folder", "memory"]


def report_of(migration: Migration, code: ExitCode) -> dict[str, dict[str, str]]:
    """The checks by name, from its JSON."""
    outcome = migration.run("--no-spark", "--json", verb="doctor")
    assert (outcome.code, outcome.err) == (code, "")
    report = json.loads(outcome.out)
    assert report["exit_code"] == code
    return {check["name"]: check for check in report["checks"]}


def test_all_is_well(app: Migration) -> None:
    before = tree_state(app.folder)
    checks = report_of(app, ExitCode.DONE)
    assert tree_state(app.folder).items() - before.items() == {
        (name, state) for name, state in tree_state(app.folder).items() if name == "migration.toml"
    }
    assert {check["outcome"] for name, check in checks.items() if name not in SPARK_CHECKS} == {"ok"}
    assert {checks[name]["outcome"] for name in SPARK_CHECKS} == {"not run"}


def test_each_failed_check_is_named_with_its_fix_and_the_others_are_made_all_the_same(app: Migration) -> None:
    app.target.mkdir(parents=True)
    app.set("source", store="customers", format="kafka-streams.timestamped-key-value")
    app.set("target", format="kafka-streams.key-value")
    checks = report_of(app, ExitCode.REFUSED)
    assert [name for name, check in checks.items() if check["outcome"] == "failed"] == [
        "conversion.allowed",
        "target.place",
    ]
    assert checks["conversion.allowed"]["fix"].endswith('[conversion] allow = ["loss:timestamp"]')
    assert checks["target.place"]["fix"] == "name a path that does not exist yet"
    text = app.run("--no-spark", verb="doctor").out
    assert "test: not ready: 2 checks failed, a run would be refused" in text
    assert "fix: name a path that does not exist yet" in text


def test_what_needs_a_failed_check_is_not_run(app: Migration) -> None:
    app.set("source", path="nowhere")
    checks = report_of(app, ExitCode.REFUSED)
    assert checks["source.found"]["outcome"] == "failed"
    assert checks["source.files"] == checks["source.files"] | {"outcome": "not run", "detail": "needs source.found"}


def test_an_application_that_runs_is_waited_for(app: Migration) -> None:
    with another_process(LOCK_FILE, app.source / ".lock"):
        checks = report_of(app, ExitCode.DONE)
        text = app.run("--no-spark", verb="doctor").out
    assert checks["source.stopped"]["outcome"] == "waiting"
    assert "test: ready, once the application is stopped" in text


def test_verbose_shows_the_details_of_checks_that_passed(app: Migration) -> None:
    brief, full = (app.run("--no-spark", *more, verb="doctor").out for more in ((), ("-v",)))
    assert "3 store partitions of orders" not in brief
    assert "3 store partitions of orders" in full
    assert "the old store is there" in brief


def test_a_finished_migration_needs_no_ground(app: Migration) -> None:
    assert app.run().code == ExitCode.DONE
    outcome = app.run("--no-spark", verb="doctor")
    assert (outcome.code, "nothing to do" in outcome.out) == (ExitCode.DONE, True)


def test_a_spec_that_cannot_be_understood_is_no_check(app: Migration) -> None:
    app.set("conversion", function="nowhere:convert")
    outcome = app.run("--no-spark", verb="doctor")
    assert (outcome.code, outcome.out) == (ExitCode.USAGE, "")
    assert "the function 'nowhere:convert' cannot be imported" in outcome.message


def test_it_is_a_library_function_too(tmp_path: Path) -> None:
    report = doctor(kafka_spec(tmp_path, copy_fixture(tmp_path)))
    assert (report.exit_code, report.verdict, report.master) == (0, "ready", None)
    assert {check.name for check in report.checks} >= SPARK_CHECKS.keys()


@pytest.mark.parametrize("option", ["--master", "--no-spark"])
def test_help_names_how_it_would_run(commands: CommandServer, option: str) -> None:
    assert option in commands.run(["doctor", "--help"]).out
