"""Writing to the standard streams."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

from migrate.model.units import visible


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
