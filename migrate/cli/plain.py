"""Text without rich, whose import is a tenth of the time in which `status` answers: width, colours, wrapped lines."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import TextIO

import click

WIDTH_WITHOUT_TERMINAL = 120


def has_colors(stream: TextIO, *, no_color: bool) -> bool:
    """On a terminal alone: what forces colours elsewhere would put them into a pipe."""
    return stream.isatty() and not no_color and not os.environ.get("NO_COLOR")


def width_of(stream: TextIO) -> int:
    """Of the terminal; elsewhere as COLUMNS says, else 120."""
    if stream.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else WIDTH_WITHOUT_TERMINAL


def wrap(text: str, width: int) -> list[str]:
    """Between words alone: a path can be copied whole, and a terminal breaks what is too long by itself."""
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


ATTENTION = "attention"
"""The fact that is shown in amber."""


def fact_lines(rows: dict[str, str], *, width: int, is_bold: bool) -> list[str]:
    """Names, and what there is to say of each; nothing of what is empty. `is_bold`: with styles."""
    rows = {name: text for name, text in rows.items() if text}
    indent = max(map(len, rows), default=0) + 2
    lines = []
    for name, text in rows.items():
        parts = [line for part in text.splitlines() for line in wrap(part, width - indent)]
        for number, line in enumerate(parts):
            label = f"{name if number == 0 else '':<{indent}}"
            told = click.style(line, fg="yellow") if is_bold and name == ATTENTION else line
            lines.append((click.style(label, bold=True) if is_bold and number == 0 else label) + told)
    return lines
