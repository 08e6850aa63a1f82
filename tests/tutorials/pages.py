"""What a page tells its reader to do, in order: files to write and commands to run, with the output that it shows.

A `console` block holds commands after `$ `, their further lines after `> `, and their output. Another block whose first
line is a comment that is a file's name (`# convert.py`) is that file. Everything else is prose.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(
    ROOT / name for name in ("README.md", "docs/tutorial.md", "docs/tutorial-rejects.md", "docs/tutorial-lazy.md")
)

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# ([\w-]+\.[a-z]+)\n")


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(slots=True)
class Command:
    """A command, and the lines that the page shows below it."""

    text: str
    line: int
    shown: list[str] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The index, in the page's lines, of the line after its output."""
        return self.line + self.text.count("\n") + len(self.shown)


def steps(page: str) -> list[File | Command]:
    """The files and commands of a page."""
    found: list[File | Command] = []
    for block in _BLOCK.finditer(page):
        language, text = block.groups()
        if language == "console":
            found += _commands(text, page.count("\n", 0, block.start(2)))
        elif name := _FILE_NAME.match(text):
            found.append(File(name[1], text))
    return found


def _commands(block: str, first: int) -> list[Command]:
    commands: list[Command] = []
    for number, line in enumerate(block.splitlines(), first + 1):
        if line.startswith("$ "):
            commands.append(Command(line.removeprefix("$ "), number))
        elif line.startswith("> ") and not commands[-1].shown:
            commands[-1].text += "\n" + line.removeprefix("> ")
        else:
            commands[-1].shown.append(line)
    return commands
