"""Runs commands as processes of their own, forked from a server that has imported everything: a fifth of the time.

Each is a new process with standard streams and an exit code of its own, and enters by the installed command's own
function. Started as a program this is the server: a request a line on standard input, its exit code a line on standard
output.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Protocol

from migrate.engine import engines

REPOSITORY = Path(__file__).parents[2]
OF_A_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
"""Variables that change what is printed."""
PLAIN = {name: text for name, text in os.environ.items() if name not in OF_A_TERMINAL}
"""The environment of a command on no terminal: readline, which pytest loads, gives other child processes a width."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """What the command says went wrong, in one line however it was broken."""
        return " ".join(self.err[self.err.index("stateferry: ") :].split())


class Commands(Protocol):
    """Runs `stateferry`."""

    def run(self, arguments: Sequence[str], *, before: str = "") -> Outcome:
        """Run it with these arguments; `before` is Python code that prepares its process."""
        ...


class InProcess:
    """Runs commands in this process; what has to be prepared runs in a process of its own."""

    def __init__(self, forked: Commands | None = None) -> None:
        self._forked = forked

    def run(self, arguments: Sequence[str], *, before: str = "") -> Outcome:
        """Run `stateferry` with these arguments."""
        from click.testing import CliRunner

        from migrate.cli.main import main

        if before:
            assert self._forked is not None
            return self._forked.run(arguments, before=before)
        terminate = signal.getsignal(signal.SIGTERM)
        try:
            result = CliRunner().invoke(main, [*arguments], catch_exceptions=False)
        finally:
            signal.signal(signal.SIGTERM, terminate)
        return Outcome(result.exit_code, result.stdout, result.stderr)


class CommandServer:
    """Forks a process for each command. A context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"},
        )

    def __enter__(self) -> CommandServer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def run(self, arguments: Sequence[str], *, before: str = "") -> Outcome:
        """Run `stateferry` with these arguments; `before` is Python code that prepares the new process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before += f"\nfrom migrate.engine import engines\nengines.LITTLE_BYTES = {engines.LITTLE_BYTES}"
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            request = {"arguments": [*arguments], "before": before, "out": str(out), "err": str(err)}
            print(json.dumps(request), file=self._process.stdin, flush=True)
            code = int(self._process.stdout.readline())
            return Outcome(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@cache
def command_server() -> CommandServer:
    """One for all tests of this process."""
    server = CommandServer()
    atexit.register(server.__exit__)
    return server


def stateferry(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command here, on no terminal."""
    before = "import os\n" + f"for name in {OF_A_TERMINAL}: os.environ.pop(name, None)\n"
    before += f"os.environ.update({environment!r})\nos.chdir({str(Path.cwd())!r})"
    words = [str(each) for each in arguments]
    done = command_server().run(words, before=before)
    return subprocess.CompletedProcess(words, done.code, done.out, done.err)


def run_from_scratch(arguments: Sequence[str]) -> Outcome:
    """Run `stateferry` in a process that shares nothing with another one, away from the repository."""
    done = subprocess.run(
        [sys.executable, "-c", "from migrate.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=120,
        env={**PLAIN, "PYTHONPATH": str(REPOSITORY)},
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def _serve(main: Callable[[], Any]) -> None:
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become_command(main, request)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become_command(main: Callable[[], Any], request: dict[str, Any]) -> NoReturn:
    null = os.open(os.devnull, os.O_RDONLY)
    streams = (null, *(os.open(request[name], os.O_WRONLY | os.O_CREAT, 0o644) for name in ("out", "err")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    code: object = 70
    try:
        exec(request["before"], {})
        sys.argv = ["stateferry", *request["arguments"]]
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where a process with threads forks
    from migrate.batch.run import run  # noqa: F401
    from migrate.batch.status.status import status  # noqa: F401
    from migrate.cli.main import main
    from migrate.show.text.progress import progress  # noqa: F401
    from migrate.show.text.report_text import show_run  # noqa: F401

    _serve(main)
