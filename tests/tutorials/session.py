"""Runs a page's commands as its reader would in one shell: each finds the directory and the variables of the last."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.shared.commands import OF_A_TERMINAL, CommandServer
from tests.tutorials.outputs import presented

_PLAIN = re.compile(r"stateferry [\w ./=@:-]+")
_LONGEST_S = 900
WITHOUT_PYSPARK = "import sys; sys.modules['pyspark'] = None"
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

    def run(self, command: str) -> list[str]:
        """What it prints."""
        output = self.state / "output"
        if self.server is not None and _PLAIN.fullmatch(command):
            words = shlex.split(command)[1:]
            self.code = self.server.run(words, before=self._prepared(output)).code
        else:
            self._run_in_a_shell(command, output)
        return presented(output.read_text(encoding="utf-8"), self.folder)

    def _prepared(self, output: Path) -> str:
        return (
            f"import os\n{WITHOUT_PYSPARK}\n"
            f"for name in {OF_A_TERMINAL}: os.environ.pop(name, None)\n"
            f"os.chdir({str(self.directory)!r})\n"
            f"both = os.open({str(output)!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)\n"
            "os.dup2(both, 1); os.dup2(both, 2)\n"
        )

    def _run_in_a_shell(self, command: str, output: Path) -> None:
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
            self.code = shell.wait(timeout=_LONGEST_S)
