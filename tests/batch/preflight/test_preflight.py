"""Which checks each command makes: one list, of which each check says where it counts."""

from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, run, snapshot
from migrate.batch.context import Context
from migrate.batch.preflight.check import Purpose
from migrate.batch.preflight.checklist import Preflight
from tests.support import copy_fixture, kafka_spec

IN_PLACE: dict[str, Any] = {"target": {"path": None}}
BESIDE = ("function.names", "source.open-files", "work_dir.free", "user.owner", "clock")
SNAPSHOT: dict[str, Any] = {**IN_PLACE, "run": {"source": "snapshot"}}


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A state directory of Kafka Streams."""
    return copy_fixture(tmp_path)


def names(application: Path, purpose: Purpose, sections: dict[str, Any]) -> list[str]:
    """Of the checks that count."""
    spec = kafka_spec(application.parent, application, **sections)
    return [check.name for check in Preflight(Context(spec), purpose).checks()]


@pytest.mark.parametrize("sections", [IN_PLACE, SNAPSHOT], ids=["live", "snapshot"])
def test_reports_list_what_a_run_checks_and_more(application: Path, sections: dict[str, Any]) -> None:
    made, listed = names(application, "run", sections), names(application, "plan", sections)
    assert listed[: len(made)] == made
    assert listed == names(application, "doctor", sections)
    more = {"source.position"} if sections is SNAPSHOT else set()
    assert {*listed[len(made) :]} == {*BESIDE, *more}


def test_a_snapshot_makes_the_checks_of_a_run(application: Path) -> None:
    made, taken = names(application, "run", SNAPSHOT), names(application, "snapshot", SNAPSHOT)
    assert {*made} - {*taken} == {"run.verify", "run.engine"}
    assert {*taken} - {*made} == {"source.position"}


def test_once_the_snapshot_is_taken_its_positions_are_not_checked_again(application: Path) -> None:
    snapshot(kafka_spec(application.parent, application, **SNAPSHOT))
    assert "source.position" not in names(application, "plan", SNAPSHOT)


@pytest.mark.parametrize("command", [run, snapshot])
def test_a_folder_that_must_not_be_made_is_not_made(command: Any, application: Path) -> None:  # noqa: ANN401
    work_dir = application / "work"
    sections = IN_PLACE if command is run else SNAPSHOT
    with pytest.raises(RefusedError, match="inside the application's state directory"):
        command(kafka_spec(application.parent, application, work_dir=str(work_dir), **sections))
    assert not work_dir.exists()
