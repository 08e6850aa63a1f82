"""The output that the options of a command ask for: JSON or text, progress, colours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO, TypeVar

from migrate.show.plain import Layout, has_colors, width_of
from migrate.show.streams import streams_are_one, write_out

if TYPE_CHECKING:
    from rich.console import Console

    from migrate.model.values import Report

R = TypeVar("R", bound="Report")


@dataclass(frozen=True, slots=True)
class Output:
    """How a command prints: reports to standard output, everything else to standard error."""

    as_json: bool = False
    quiet: bool = False
    verbosity: int = 0
    no_color: bool = False
    debug: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether no progress is shown: it was not asked for, or it would get into the JSON document."""
        return self.quiet or (self.as_json and streams_are_one())

    @property
    def layout(self) -> Layout:
        """The layout of text on standard output."""
        return Layout(width_of(sys.stdout), has_colors(sys.stdout, no_color=self.no_color))

    def show(self, report: R, as_text: Callable[[R, Output], list[str]]) -> None:
        """Print a report, as JSON or as the lines that `as_text` makes of it."""
        from migrate.show.foreign_text import visible_json, visible_report

        if self.as_json:
            write_out(visible_json(report.model_dump_json(indent=2)))
        else:
            write_out("\n".join(as_text(visible_report(report), self)))

    def terminal(self, stream: TextIO) -> Console | None:
        """A rich console on standard output or standard error; None where that is not a terminal."""
        if not stream.isatty():
            return None
        from rich.console import Console

        color_system: Literal["auto"] | None = "auto" if has_colors(stream, no_color=self.no_color) else None
        return Console(file=stream, highlight=False, force_terminal=True, color_system=color_system)
