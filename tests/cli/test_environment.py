"""What is around a command: its options in the environment, a log for machines, completion in a shell."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from formats import FORMATS
from migrate.cli import run_commands as migration
from migrate.cli.main import main
from tests.shared.commands import stateferry

ACCEPTING = re.compile(r"--(unverified|accept-.*|discard-new-writes|delete-topic|fence|yes)$")
OPTIONS = [
    (verb.name or "", name, option.envvar)
    for verb in main.commands.values()
    for option in verb.params
    if isinstance(option, click.Option) and (name := max(option.opts, key=len)) != "--help"
]


def test_options_are_spelled_as_on_the_command_line_and_none_accepts_a_loss() -> None:
    assert {name for _, name, variable in OPTIONS if variable is None} >= {
        *("--unverified", "--accept-rejects", "--accept-mismatch", "--discard-new-writes", "--delete-topic"),
        *("--fence", "--yes", "--moved-away", "--no-checksums", "--changelog-end"),
    }
    for verb, name, variable in OPTIONS:
        assert not (ACCEPTING.match(name) and variable)
        if variable is not None:
            assert variable == f"STATEFERRY_{verb}{name.removeprefix('-')}".upper().replace("-", "_")
    assert ("catch-up", "--master", "STATEFERRY_CATCH_UP_MASTER") in OPTIONS


def test_the_environment_gives_options(spec: Path) -> None:
    done = stateferry("run", spec, STATEFERRY_RUN_JOBS="1", STATEFERRY_RUN_JSON="1", STATEFERRY_RUN_QUIET="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "published"


@pytest.mark.parametrize(
    ("typed", "given", "place"),
    [
        (("--no-spark",), {"JOBS": "3"}, (False, 1)),
        (("--jobs", "2"), {"MASTER": "yarn"}, (False, 2)),
        (("--jobs", "2"), {"JOBS": "3", "NO_SPARK": "1"}, (False, 2)),
        (("--master", "yarn"), {"JOBS": "3"}, (True, 0)),
        (("--master", "yarn"), {"NO_SPARK": "1"}, (True, 0)),
        ((), {"JOBS": "3"}, (False, 3)),
        ((), {"NO_SPARK": "1"}, (False, 1)),
        ((), {"MASTER": "yarn"}, (True, 0)),
    ],
)
@pytest.mark.parametrize("verb", ["run", "replay"])
def test_the_command_line_says_where_to_run(
    *,
    verb: str,
    typed: tuple[str, ...],
    given: dict[str, str],
    place: tuple[bool, int],
    spec: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the environment says beside it is neither followed nor an error."""
    seen = []

    def record(*_: object, on_spark: bool, jobs: int, **__: object) -> None:
        seen.append((on_spark, jobs))

    monkeypatch.setattr(migration, "run_and_show", record)
    environment = {f"STATEFERRY_{verb.upper()}_{name}": value for name, value in given.items()}
    done = CliRunner().invoke(main, [verb, str(spec), *typed], env=environment)
    assert (done.exit_code, seen) == (0, [place]), done.output


def test_two_places_to_run_in_one_environment_are_an_error(spec: Path) -> None:
    done = stateferry("run", spec, STATEFERRY_RUN_JOBS="2", STATEFERRY_RUN_MASTER="yarn")
    assert done.returncode == 2
    assert "give one of them" in done.stderr


def test_a_wrong_value_from_the_environment_is_named_by_its_variable(spec: Path) -> None:
    wrong = stateferry("run", spec, STATEFERRY_RUN_JOBS="x")
    assert wrong.returncode == 2
    assert "It is the value of STATEFERRY_RUN_JOBS.\n" in wrong.stderr
    assert "STATEFERRY" not in stateferry("run", spec, "--jobs", "x").stderr


def test_a_loss_is_never_accepted_by_the_environment(spec: Path) -> None:
    spec.write_text(spec.read_text() + '[run]\nverify = "off"\n')
    everything = {f"STATEFERRY_RUN_{name}": "1" for name in ("UNVERIFIED", "ACCEPT_REJECTS", "FENCE")}
    refused = stateferry("run", spec, "--no-spark", **everything)
    assert refused.returncode == 6
    assert not (spec.parent / "new").exists()


def _objects(text: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in text.splitlines()]
    for each in found:
        assert {"time", "level", "logger", "message"} <= each.keys()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", str(each["time"]))
    return found


def test_a_log_of_json_objects_has_nothing_else(spec: Path) -> None:
    for place in (("--log-format", "json", "run"), ("run", "--log-format=json")):
        done = stateferry(*place, spec, "--no-spark")
        found = _objects(done.stderr)
        assert done.returncode == 0
        assert {each["level"] for each in found} == {"info"}


def test_events_and_errors_are_objects_too(spec: Path) -> None:
    events = _objects(stateferry("run", spec, "--no-spark", "-v", "--log-format", "json").stderr)
    assert {"run.begun", "chunk.committed", "verify.committed"} <= {each.get("event") for each in events}
    (error,) = _objects(stateferry("rollback", spec, "--log-format", "json").stderr)
    assert (error["level"], error["exit_code"]) == ("error", 2)
    assert error["next"]
    (unknown,) = _objects(stateferry("run", spec, "--log-format", "json", "--odd").stderr)
    assert (unknown["level"], unknown["exit_code"]) == ("error", 2)


def test_a_shell_completes_formats() -> None:
    words = "stateferry init . --to streamiz.w"
    environment = os.environ | {"_STATEFERRY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"}
    command = [sys.executable, "-m", "migrate"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wanted = [f"plain,{known.id}" for known in FORMATS if known.id.startswith("streamiz.w")]
    assert done.stdout.splitlines() == wanted
