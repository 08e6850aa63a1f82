"""Text for a stream: width, colours, wrapped lines, facts, tables.

Control characters in keys, file names and exceptions are made visible here: all that the commands print passes through,
reports before they become text, messages and JSON.
rich draws only tables: importing it takes a tenth of the time in which `status` answers.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from migrate.model.display import one_line, visible

WIDTH_WITHOUT_TERMINAL = 120
ATTENTION = "attention"
"""The label of the fact that is printed in yellow."""
_LEAST_WIDTH = 20
COMMAND = re.compile(
    r"""stateferry [a-z-]+ (?:SPEC\b|(?=[^\s]*[./'])(?:'[^']*'|"[^"]*"|[^\s'",;()])*(?:'[^']*'|[^\s'",;().:]))"""
    r"""(?: --[a-z-]+(?: [0-9]+)?)*"""
)
"""A command in a sentence: the verb, the spec as a shell reads it, and options."""
_KEPT_SPACE = "\0"
"""Stands for a space at which a line must not be broken."""
T = TypeVar("T")
_BEFORE_A_BULLET = re.compile(r"\n(?=  - )")
"""Our own messages have no other line breaks."""
_WITHOUT_TEXT = {int, float, bool, bytes, type(None)}


def has_colors(stream: TextIO, *, no_color: bool) -> bool:
    """Whether to print colours: only on a terminal, since FORCE_COLOR would put them into a pipe."""
    return stream.isatty() and not no_color and not os.environ.get("NO_COLOR")


def width_of(stream: TextIO) -> int:
    """The columns of the terminal; without a terminal the value of COLUMNS, or 120."""
    if stream.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else WIDTH_WITHOUT_TERMINAL


@dataclass(frozen=True, slots=True)
class Layout:
    """The width and colours of a stream. Each method returns lines, or a part of one."""

    width: int
    has_colors: bool

    def styled(self, text: str, **style: Any) -> str:  # noqa: ANN401 - click's own
        """The text in a style of click's, if the stream has colours."""
        return click.style(text, **style) if self.has_colors and text and any(style.values()) else text

    def title(self, text: str) -> list[str]:
        """A heading, with an empty line above it."""
        return ["", self.styled(text, bold=True)]

    def wrapped(self, text: str, *, indent: int = 0, hang: int | None = None) -> list[str]:
        """Lines broken between words, and never within a command, so that both can be copied.

        `hang` is the indent of continuation lines, if it differs.
        """
        kept = COMMAND.sub(lambda command: command[0].replace(" ", _KEPT_SPACE), text)
        lines = [
            textwrap.wrap(
                line,
                max(self.width, indent + _LEAST_WIDTH),
                initial_indent=" " * indent,
                subsequent_indent=" " * (indent if hang is None else hang),
                break_long_words=False,
                break_on_hyphens=False,
            )
            for line in kept.splitlines()
        ]
        return [line.replace(_KEPT_SPACE, " ") for part in lines for line in part or [""]]

    def facts(self, rows: Mapping[str, str], *, indent: int = 0, label: int = 0) -> list[str]:
        """Labels, at least `label` columns wide, with their texts; empty texts are left out."""
        rows = {name: text for name, text in rows.items() if text}
        column = indent + max([label, *map(len, rows)]) + 2
        lines = []
        for name, text in rows.items():
            color = "yellow" if name == ATTENTION else None
            first, *rest = (self.styled(line[column:], fg=color) for line in self.wrapped(text, indent=column))
            heading = self.styled(f"{name:<{column - indent}}", bold=True)
            lines += [" " * indent + heading + first, *(" " * column + line for line in rest)]
        return lines

    def table(self, columns: Iterable[str], rows: Iterable[Iterable[str]], *, right: Iterable[str] = ()) -> list[str]:
        """A table; the columns in `right` are aligned to the right."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold")
        for name in columns:
            table.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        drawn = StringIO()
        Console(file=drawn, width=self.width, force_terminal=self.has_colors, no_color=not self.has_colors).print(table)
        return [line.rstrip() for line in drawn.getvalue().splitlines()]


def visible_message(text: str) -> str:
    """A message with invisible characters made visible, and no line breaks but those of its list."""
    if text.isprintable():
        return text
    return "\n".join(map(one_line, _BEFORE_A_BULLET.split(text)))


def visible_report(value: T, change: Callable[[str], str] = str) -> T:
    """A copy of a report, or of a part of one, with `change` and `visible_message` applied to every text."""
    kind: type = type(value)
    shown: Any = value
    if kind in _WITHOUT_TEXT:
        return value
    if kind is str:
        shown = visible_message(change(shown))
    elif hasattr(kind, "model_copy"):  # a model, known without loading pydantic, which a command's help does not need
        texts = ((name, part) for name, part in shown.__dict__.items() if type(part) not in _WITHOUT_TEXT)
        fields = ((name, part, visible_report(part, change)) for name, part in texts)
        changed = {name: made for name, part, made in fields if made is not part}
        shown = shown.model_copy(update=changed) if changed else value
    elif isinstance(value, Path):
        shown = Path(one_line(str(value)))
    elif isinstance(value, tuple | list):
        shown = type(value)(visible_report(part, change) for part in value)
    elif isinstance(value, dict):
        shown = {visible_report(name): visible_report(part, change) for name, part in value.items()}
    return shown  # type: ignore[no-any-return]


def visible_json(document: str) -> str:
    """The JSON document with control characters as escapes, so that its strings keep their values."""
    lines = (
        line if line.isprintable() else "".join(each if visible(each) == each else _escaped(each) for each in line)
        for line in document.split("\n")
    )
    return _as_utf8("\n".join(lines), _escaped)


def printable_toml(document: str) -> str:
    """The TOML document, whose control characters are escapes already."""
    return _as_utf8(document, lambda character: f"\\U{ord(character):08x}")


def _as_utf8(document: str, escaped: Callable[[str], str]) -> str:
    """A document that can be read as UTF-8, whatever the encoding of standard output."""
    if document.isascii() or codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8":
        return document
    return "".join(each if each.isascii() else escaped(each) for each in document)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
