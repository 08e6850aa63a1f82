"""Writing to the standard streams."""

from __future__ import annotations

import codecs
import io
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

from migrate.model.units import UNPRINTABLE, visible

_ESCAPED = "stateferry.escaped"
"""The error handler of the standard streams."""


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


def is_utf8(stream: Any) -> bool:  # noqa: ANN401 - any text stream
    """Whether what is printed there is encoded as UTF-8."""
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"


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
