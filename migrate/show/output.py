"""How the output was asked for: as JSON, in few words, in colours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from migrate.show.plain import Layout, has_colors, width_of
from migrate.show.streams import say, streams_are_one

if TYPE_CHECKING:
    from rich.console import Console

    from migrate.model.values import Report

R = TypeVar("R", bound="Report")


@dataclass(frozen=True, slots=True)
class Output:
    """How a command talks: reports to standard output, everything else to standard error."""

    as_json: bool = False
    quiet: bool = False
    verbosity: int = 0
    no_color: bool = False
    debug: bool = False

    @property
    def is_quiet(self) -> bool:
        """No progress; nor where it would get between the lines of a JSON document."""
        return self.quiet or (self.as_json and streams_are_one())

    @property
    def layout(self) -> Layout:
        """Of standard output."""
        return Layout(width_of(sys.stdout), has_colors(sys.stdout, no_color=self.no_color))

    def show(self, report: R, in_words: Callable[[R, Output], list[str]]) -> None:
        """Print a report, as JSON or as the lines that the given function makes of it for a person."""
        from migrate.show.foreign_text import visible_json, visible_report

        if self.as_json:
            say(visible_json(report.model_dump_json(indent=2)))
        else:
            say("\n".join(in_words(visible_report(report), self)))

    def console(self, *, is_error: bool = False) -> Console:
        """Of rich, for standard output or standard error."""
        from migrate.show.console import console

        return console(sys.stderr if is_error else sys.stdout, no_color=self.no_color)
