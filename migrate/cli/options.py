"""The options of every verb, given before its name or after it, and what they come to."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from migrate.words import visible

if TYPE_CHECKING:
    from rich.console import Console

    from migrate.report_model import Report

_META = "stateferry.options"

R = TypeVar("R", bound="Report")


def _note(context: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401 - click's own
    """Options before the verb and after it add up."""
    assert parameter.name is not None
    noted: dict[str, int] = context.meta.setdefault(_META, {})
    noted[parameter.name] = noted.get(parameter.name, 0) + int(value)


def _flag(*names: str, help_: str, count: bool = False) -> click.Option:
    kind = {"count": True} if count else {"is_flag": True}
    return click.Option(names, **kind, expose_value=False, callback=_note, help=help_)


def common_options() -> list[click.Option]:
    """New ones: click keeps state in them."""
    return [
        _flag("--json", "as_json", help_="Print one JSON document, errors too, and nothing else."),
        _flag("--quiet", "-q", "quiet", help_="Show no progress."),
        _flag("--verbose", "-v", "verbose", help_="Say more: every event of a run, what each check saw.", count=True),
        _flag("--no-color", "no_color", help_="Print no colours; so does the environment variable NO_COLOR."),
        _flag("--debug", "debug", help_="Show the traceback of an error."),
    ]


def add_common_options(command: click.Command) -> None:
    """Give a command those that it has not got."""
    taken = {name for option in command.params for name in option.opts}
    command.params += [option for option in common_options() if taken.isdisjoint(option.opts)]


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

    def show(self, report: R, in_words: Callable[[R, Output], None]) -> None:
        """Print a report, as JSON or as the given function does it for a person."""
        from migrate.cli.foreign_text import visible_json, visible_report

        if self.as_json:
            say(visible_json(report.model_dump_json(indent=2)))
        else:
            in_words(visible_report(report), self)

    def console(self, *, is_error: bool = False) -> Console:
        """Of rich, for standard output or standard error."""
        from migrate.cli.console import console

        return console(sys.stderr if is_error else sys.stdout, no_color=self.no_color)


def current_output() -> Output:
    """As the options of the command that runs say."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Output()
    noted = context.meta.get(_META, {})
    own = context.params  # a verb may have declared such an option itself
    return Output(
        as_json=bool(noted.get("as_json") or own.get("as_json")),
        quiet=bool(noted.get("quiet") or own.get("quiet")),
        verbosity=noted.get("verbose", 0),
        no_color=bool(noted.get("no_color")),
        debug=bool(noted.get("debug")),
    )


def say(text: str) -> None:
    """To standard output. Whoever read it may be gone, and the command's exit code counts all the same.

    Raises OSError where it cannot be written for another reason.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        stop_writing(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise


def user_output_aside() -> redirect_stdout[TextIO]:
    """What a function of the user's prints must not stand among the reports."""
    return redirect_stdout(sys.stderr)


def remark(text: str) -> None:
    """To standard error. A log on a full disk must not end what goes on beside it."""
    try:
        print(visible(text), file=sys.stderr, flush=True)
    except OSError:
        stop_writing(sys.stderr)


def stop_writing(stream: Any) -> None:  # noqa: ANN401 - any text stream
    """Python flushes at its end, and would fail again there."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def streams_are_one() -> bool:
    """Whether standard error ends up in standard output: by `2>&1`, and always under spark-submit."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        return os.path.sameopenfile(out, err) and not sys.stdout.isatty()
    except (OSError, io.UnsupportedOperation):
        return False
