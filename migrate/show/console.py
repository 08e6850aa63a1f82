"""rich's console, where output may go into a pipe, a log, a file or a narrow terminal."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

from migrate.show.plain import has_colors, width_of
from migrate.show.streams import stop_writing


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read this has gone; rich would exit with 1, which is a bug's code (I9)."""
        self.quiet = True
        stop_writing(self.file)


def console(stream: TextIO, *, no_color: bool) -> Console:
    """For one of the standard streams."""
    on_terminal = stream.isatty()
    return _Console(
        file=stream,
        highlight=False,
        force_terminal=on_terminal,  # FORCE_COLOR would put colours into a pipe
        color_system="auto" if has_colors(stream, no_color=no_color) else None,
        width=None if on_terminal else width_of(stream),
    )
