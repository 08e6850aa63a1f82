"""The output that the options of a command ask for (JSON or text, progress, colours), on the standard streams."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

from migrate.model.display import UNPRINTABLE, one_line, visible
from migrate.show.plain import Layout, has_colors, visible_json, visible_report, width_of

if TYPE_CHECKING:
    from rich.console import Console

    from migrate.model.values import Report


R = TypeVar("R", bound="Report")
_COMMAND = re.compile(r"\bstateferry ([a-z-]+) SPEC\b( --no-spark)?")
_ON_SPARK = ("run", "replay", "verify")
"""The verbs that use Spark unless they are told not to."""
_ESCAPED = "stateferry.escaped"
"""The error handler of the standard streams."""


@dataclass(frozen=True, slots=True)
class Output:
    """How a command prints: reports to standard output, everything else to standard error."""

    as_json: bool = False
    quiet: bool = False
    verbosity: int = 0
    no_color: bool = False
    debug: bool = False
    json_log: bool = False
    """Whether each line on standard error is a JSON object."""
    spec: str = ""
    """The spec's path as the user gave it; empty: the command has none."""

    @property
    def is_quiet(self) -> bool:
        """Whether no progress is shown: it was not asked for, or it would get into the JSON document."""
        return self.quiet or (self.as_json and streams_are_one())

    @property
    def asks(self) -> bool:
        """Whether there is a person to answer a question: on a terminal, unless the command was told to be quiet."""
        return not (self.quiet or self.as_json) and sys.stdin.isatty() and sys.stdout.isatty()

    def log(self, level: str, logger: str, message: str, **fields: Any) -> None:  # noqa: ANN401 - JSON
        if self.json_log:
            write_err(self.log_line(level, logger, message, **fields))
        else:
            label = "warning: " if level == "warning" else ""
            write_err(f"{time.strftime('%H:%M:%S')} {label}{one_line(message)}")

    def say(self, text: str) -> None:
        """Write to standard error what is no line of the log, unless every line there has to be one."""
        write_err(self.log_line("info", "stateferry", text.strip()) if self.json_log else text)

    def log_line(self, level: str, logger: str, message: str, **fields: Any) -> str:  # noqa: ANN401 - JSON
        """A line of the log as a JSON object."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": now, "level": level, "logger": logger, "message": message, **fields})

    @property
    def layout(self) -> Layout:
        return Layout(width_of(sys.stdout), has_colors(sys.stdout, no_color=self.no_color))

    def show(self, report: R, as_text: Callable[[R, Output], list[str]]) -> None:
        """Print a report, as JSON or as the lines that `as_text` makes of it."""
        write_out(self.document(report) if self.as_json else "\n".join(as_text(self.readable(report), self)))

    def document(self, report: Report, indent: int | None = 2) -> str:
        try:
            text = report.model_dump_json(indent=indent)
        except ValueError:  # half a surrogate pair in a value of an application, which UTF-8 cannot hold
            text = json.dumps(report.model_dump(), default=str, indent=indent, ensure_ascii=False)
        return visible_json(self.named(text, in_json=True))

    def readable(self, report: R) -> R:
        """A copy of a report whose texts can be printed."""
        return visible_report(report, self.named)

    def named(self, text: str, *, in_json: bool = False) -> str:
        """The text with the spec's path, quoted for a shell, in each command that has SPEC for it.

        Where PySpark is not installed, a command that would use it says that it does not.
        """
        if not self.spec or "SPEC" not in text:
            return text
        path = shlex.quote(self.spec)
        path = json.dumps(path, ensure_ascii=False)[1:-1] if in_json else path
        refused = () if find_spec("pyspark") else _ON_SPARK

        def with_path(command: re.Match[str]) -> str:
            without = " --no-spark" if command[2] or command[1] in refused else ""
            return f"stateferry {command[1]} {path}{without}"

        return _COMMAND.sub(with_path, text)

    def terminal(self, stream: TextIO) -> Console | None:
        """A rich console on standard output or standard error; None where that is not a terminal."""
        if not stream.isatty() or self.json_log:
            return None
        from rich.console import Console

        color_system: Literal["auto"] | None = "auto" if has_colors(stream, no_color=self.no_color) else None
        return Console(file=stream, highlight=False, force_terminal=True, color_system=color_system)


def prepare_streams() -> None:
    """Open /dev/null for each closed standard stream, and let the others escape what their encoding lacks.

    A file that is opened later would get the number of a closed stream, and with it what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == number:
                os.set_inheritable(opened, True)  # else a child would find it closed
            setattr(sys, name, os.fdopen(opened, "w" if number else "r", encoding="utf-8"))
    codecs.register_error(_ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """As "backslashreplace", but the sign for what is not printable stays one that is no escaped byte."""
    assert isinstance(error, UnicodeEncodeError)
    character = error.object[error.start]
    text = "." if character == UNPRINTABLE else character.encode("ascii", "backslashreplace").decode("ascii")
    return text, error.start + 1


def write_out(text: str) -> None:
    """Write to standard output. If the reader is gone, the text is discarded and the exit code stays.

    Raises OSError if writing fails for another reason.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        stop_writing(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise


def user_output_to_stderr() -> redirect_stdout[TextIO]:
    """Send to standard error what the user's function prints, to keep it out of the reports."""
    return redirect_stdout(sys.stderr)


def write_err(text: str) -> None:
    """Write to standard error. An error there, like a full disk, does not end the command."""
    try:
        print(visible(text), file=sys.stderr, flush=True)
    except OSError:
        stop_writing(sys.stderr)


def stop_writing(stream: Any) -> None:  # noqa: ANN401 - any text stream
    """Discard what is written from now on: Python flushes at exit, and would fail again."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def streams_are_one() -> bool:
    """Whether standard error goes to the same file as standard output: `2>&1`, and always under spark-submit."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        return os.path.sameopenfile(out, err) and not sys.stdout.isatty()
    except (OSError, io.UnsupportedOperation):
        return False
