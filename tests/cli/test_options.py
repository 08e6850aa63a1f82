"""What every verb has in common: its options, what goes where, colours and widths."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import click
import pytest

from migrate.cli.main import main
from migrate.cli.options import common_options
from migrate.show.plain import COMMAND as COMMANDS
from migrate.show.plain import WIDTH_WITHOUT_TERMINAL
from tests.shared.commands import PLAIN, stateferry

COMMAND = [sys.executable, "-c", "from migrate.cli import main; main()"]
HEAVY = ("rich", "pydantic", "deltalake", "pyarrow", "rocksdict", "numpy", "jinja2", "pyspark")
ESCAPE = "\x1b["


def with_errors_to(stderr: int | IO[bytes], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False, env=PLAIN)


def on_terminal(*arguments: str | Path, **environment: str) -> str:
    """What a terminal of 80 columns gets."""
    main_end, command_end = pty.openpty()
    with os.fdopen(main_end, "rb", buffering=0) as shown:
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=command_end,
            stdout=command_end,
            stderr=command_end,
            env=PLAIN | {"TERM": "xterm-256color"} | environment,
        )
        os.close(command_end)
        text = b""
        while True:
            try:
                more = shown.read(4096)
            except OSError:  # Linux: the last one has closed the other end
                break
            if not more:
                break
            text += more
        process.wait(timeout=60)
    return text.decode()


@pytest.mark.parametrize("verb", sorted(main.commands))
def test_every_verb_has_the_common_options(verb: str) -> None:
    has = {name for option in main.commands[verb].params for name in option.opts}
    assert {name for option in common_options() for name in option.opts} - {"-q"} <= has


def test_every_verb_has_its_place_in_the_order_of_work() -> None:
    placed = [verb.name for verbs in main.sections.values() for verb in verbs]
    context = click.Context(main)
    assert main.list_commands(context) == list(main.commands) == placed
    titles = [main.get_help(context).index(f"\n{title}:\n") for title in main.sections]
    assert titles == sorted(titles)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["doctor", "-h"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from migrate.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        f"    print(end.code, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"
    assert "stateferry" in done.stdout


@pytest.mark.parametrize("arguments", [("--json", "status"), ("status", "--json")])
def test_options_go_before_the_verb_or_after_it(arguments: tuple[str, ...], spec: Path) -> None:
    done = stateferry(*arguments, spec)
    assert json.loads(done.stdout)["state"] == "not started"


@pytest.mark.parametrize("arguments", [("--debug", "run"), ("run", "--debug")])
def test_debug_goes_before_the_verb_or_after_it(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = stateferry(*arguments, tmp_path / "none.toml")
    assert (done.returncode, "Traceback" in done.stderr) == (2, True)


@pytest.mark.parametrize("verb", ["status", "run", "plan", "doctor", "verify"])
def test_an_error_is_a_json_document_too(verb: str, tmp_path: Path) -> None:
    done = stateferry(verb, tmp_path / "none.toml", "--json")
    missing = f"cannot read the spec {tmp_path}/none.toml: No such file or directory"
    assert json.loads(done.stdout) == {
        "schema_version": 1,
        "error": {"message": missing, "next": "check the path", "exit_code": 2, "trace": ""},
    }
    assert (done.returncode, done.stderr) == (2, f"stateferry: {missing}\n  next: check the path\n")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["frob"], "No such command 'frob'.", "see stateferry --help"),
        (["run"], "Missing argument 'SPEC'.", "see stateferry run --help"),
        (["init", "x"], "Missing option '--to'. The new store's format; see `stateferry", "see stateferry init --help"),
        (["run", "x", "--mater", "y"], "No such option", "see stateferry run --help"),
        (
            ["verify", "x", "--mode", "z"],
            "Invalid value for '--mode': 'z' is not one of",
            "see stateferry verify --help",
        ),
    ],
)
def test_a_usage_error_is_reported_like_any_other_error(arguments: list[str], message: str, hint: str) -> None:
    plain, as_json = stateferry(*arguments), stateferry(*arguments, "--json")
    assert plain.returncode == as_json.returncode == 2
    assert plain.stdout == ""
    assert plain.stderr.startswith(f"stateferry: {message}")
    assert f"\n  next: {hint}" in plain.stderr
    error = json.loads(as_json.stdout)["error"]
    assert (error["message"].startswith(message), error["exit_code"]) == (True, 2)
    assert error["next"].startswith(hint)


def test_a_bug_has_its_trace_in_the_document(spec: Path) -> None:
    broken = "import migrate.batch.status.status as module; module.status = lambda spec: 1 / 0\n"
    code = f"{broken}from migrate.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "status", str(spec), "--json"], capture_output=True, text=True, check=False
    )
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["exit_code"]) == (1, 1)
    assert error["message"] == "this is a bug: ZeroDivisionError: division by zero"
    assert "Traceback" in error["trace"]
    assert "Traceback" in done.stderr


def test_where_both_streams_are_one_there_is_nothing_but_json(spec: Path) -> None:
    run = with_errors_to(subprocess.STDOUT, "run", spec, "--no-spark", "--json")
    assert json.loads(run.stdout)["state"] == "published"
    failed = with_errors_to(subprocess.STDOUT, "status", "none.toml", "--json", "--debug")
    assert "Traceback" in json.loads(failed.stdout)["error"]["trace"]


def test_progress_beside_json_goes_to_standard_error(spec: Path) -> None:
    run = stateferry("run", spec, "--no-spark", "--json")
    assert json.loads(run.stdout)["totals"]["records_in"] == 300
    assert "rewrite 100%" in run.stderr


def test_verbose_prints_every_event_as_a_line(spec: Path) -> None:
    run = stateferry("run", spec, "--no-spark", "-v")
    events = [line.split()[1] for line in run.stderr.splitlines()]
    assert events[0] == "source.checked"
    assert {"plan.stored", "chunk.started", "chunk.committed", "verify.committed", "publish.committed"} <= set(events)
    assert re.search(r"chunk\.committed  old chunk 0 .*: 300 records in, 300 out", run.stderr)
    assert "identity" in run.stdout
    again = stateferry("status", spec)
    assert "identity" not in again.stdout


def test_verbose_prints_each_step_of_a_switch(spec: Path) -> None:
    spec.write_text(spec.read_text().replace('path = "new"\n', ""))
    assert stateferry("run", spec, "--no-spark", "-q").returncode == 0
    switched = stateferry("cutover", spec, "--verbose")
    assert "cutover.exchanged  old" in switched.stderr
    assert stateferry("rollback", spec).stderr == ""


def test_quiet_prints_only_the_report(spec: Path) -> None:
    run = stateferry("--quiet", "run", spec, "--no-spark", "-v")
    assert run.stderr == ""
    assert "300 read, 300 written" in run.stdout


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}, {"TERM": "xterm-256color"}])
def test_no_escape_sequence_gets_into_a_pipe(environment: dict[str, str], spec: Path) -> None:
    for arguments in (("doctor", spec, "--no-spark"), ("run", spec, "--no-spark"), ("inspect", spec.parent)):
        done = stateferry(*arguments, **environment)
        assert done.returncode == 0, done.stderr
        assert ESCAPE not in done.stdout + done.stderr


def test_a_terminal_gets_colours_unless_it_wants_none(spec: Path) -> None:
    doctor = ("doctor", spec, "--no-spark")
    assert f"{ESCAPE}32mok" in on_terminal(*doctor)
    assert ESCAPE not in on_terminal(*doctor, "--no-color")
    assert ESCAPE not in on_terminal("--no-color", *doctor)
    assert ESCAPE not in on_terminal(*doctor, NO_COLOR="1")


def test_without_a_terminal_columns_decides_the_width(spec: Path) -> None:
    wide, narrow = (stateferry("run", spec, "--no-spark", "-q", **env).stdout for env in ({}, {"COLUMNS": "60"}))
    breakable = [COMMANDS.sub("x", line) for line in wide.splitlines()]
    assert 60 < max(map(len, breakable)) <= WIDTH_WITHOUT_TERMINAL
    breakable = [COMMANDS.sub("x", line) for line in narrow.splitlines()]
    too_long = [line for line in breakable if len(line) > 60 and " " in line[15:].strip()]
    assert too_long == [], "broken between words, wherever there are two, but not within a command"
    for text in (wide, narrow):
        assert str(spec.parent / "new") in text, "a path can be copied whole"
    assert stateferry("status", spec, COLUMNS="zero").returncode == 0


def test_inspect_is_a_list_where_a_table_would_be_too_wide(spec: Path) -> None:
    arguments = ("inspect", spec.parent, "--digest")
    wide, narrow = (stateferry(*arguments, COLUMNS=columns).stdout for columns in ("160", "60"))
    assert "RocksDB directory" in wide
    assert "RocksDB directory" not in narrow
    digest = re.search(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}", narrow)
    assert digest is not None
    assert digest[0] in wide
    assert "  default: 300 records" in narrow


@pytest.mark.parametrize("options", [("--json",), ()])
def test_a_closed_pipe_is_not_a_failure(options: tuple[str, ...], spec: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        command = [*COMMAND, "status", str(spec), *options]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, env=PLAIN)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_report_that_cannot_be_written_is_a_failure(spec: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*COMMAND, "status", str(spec), "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=PLAIN)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_under_the_log_ends_no_run(spec: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = with_errors_to(full, "run", spec, "--no-spark", "-v")
    assert done.returncode == 0
    assert "300 read, 300 written" in done.stdout
