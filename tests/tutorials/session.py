"""Runs a page's commands as its reader would in one shell: each finds the directory and the variables of the last."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.shared.commands import OF_A_TERMINAL, CommandServer
from tests.tutorials.outputs import INTERRUPT, presented

_PLAIN = re.compile(r"stateferry [\w ./=@:-]+")
_LONGEST_S = 900
_SHELL = """\
. {state}/variables 2>/dev/null
cd "$(cat {state}/directory)" || exit 70
(exit {code})
{command}
code=$?
declare -px >{state}/variables
pwd >{state}/directory
exit $code
"""


@dataclass(slots=True)
class Session:
    """A reader at a shell in `folder`. `state` is a folder of ours; `server` runs plain commands in less time."""

    folder: Path
    state: Path
    environment: Mapping[str, str]
    server: CommandServer | None = None
    code: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        self.start_page()

    def start_page(self) -> None:
        """Back in the clone: there every page begins."""
        self._directory.write_text(f"{self.folder}\n")

    @property
    def _directory(self) -> Path:
        return self.state / "directory"

    @property
    def directory(self) -> Path:
        """Where the next command runs."""
        return Path(self._directory.read_text().rstrip("\n"))

    def run(self, command: str, shown: Sequence[str]) -> list[str]:
        """What it prints; it is interrupted where the page shows a Ctrl-C."""
        output = self.state / "output"
        if self.server is not None and INTERRUPT not in shown and _PLAIN.fullmatch(command):
            words = shlex.split(command)[1:]
            self.code = self.server.run(words, before=self._prepared(output)).code
        else:
            self._run_in_a_shell(command, shown, output)
        lines = presented(output.read_text(encoding="utf-8"), self.folder)
        if INTERRUPT in shown and "" in lines:
            lines[lines.index("")] = INTERRUPT
        return lines

    def _prepared(self, output: Path) -> str:
        return (
            "import os\n"
            f"for name in {OF_A_TERMINAL}: os.environ.pop(name, None)\n"
            f"os.chdir({str(self.directory)!r})\n"
            f"both = os.open({str(output)!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)\n"
            "os.dup2(both, 1); os.dup2(both, 2)\n"
        )

    def _run_in_a_shell(self, command: str, shown: Sequence[str], output: Path) -> None:
        script = _SHELL.format(state=shlex.quote(str(self.state)), command=command, code=self.code)
        with (
            output.open("wb") as file,
            subprocess.Popen(
                ["bash", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
                start_new_session=True,
            ) as shell,
        ):
            if INTERRUPT in shown:
                _wait_for(shown[: shown.index(INTERRUPT)][-1], output, shell, self.folder)
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGINT)
            self.code = shell.wait(timeout=_LONGEST_S)


def _wait_for(line: str, output: Path, shell: subprocess.Popen[bytes], folder: Path) -> None:
    """Until it has printed a line like that one."""
    expected = _kind(line)
    while shell.poll() is None:
        printed = output.read_text(encoding="utf-8", errors="replace")
        if any(_kind(each) == expected for each in presented(printed, folder)):
            return
        time.sleep(0.02)


def _kind(line: str) -> str:
    return re.sub(r"\d[\d,.:]*", "N", line)
