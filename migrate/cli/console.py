"""rich's console, where output may go into a pipe, a log, a file or a narrow terminal."""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

from rich.console import Console

from migrate.cli.options import stop_writing

WIDTH_WITHOUT_TERMINAL = 120


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read this has gone; rich would exit with 1, which is a bug's code (I9)."""
        self.quiet = True
        stop_writing(self.file)


def console(stream: TextIO, *, no_color: bool) -> Console:
    """For one of the standard streams."""
    on_terminal = stream.isatty()
    plain = no_color or bool(os.environ.get("NO_COLOR")) or not on_terminal
    return _Console(
        file=stream,
        highlight=False,
        force_terminal=on_terminal,  # FORCE_COLOR would put colours into a pipe
        color_system=None if plain else "auto",
        width=None if on_terminal else _width_without_terminal(),
    )


def wrap(text: str, width: int) -> list[str]:
    """Between words alone: a path can be copied whole, and a terminal breaks what is too long by itself."""
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


def _width_without_terminal() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else WIDTH_WITHOUT_TERMINAL
