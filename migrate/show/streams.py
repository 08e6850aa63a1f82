"""What is written to the standard streams, and what is kept off them."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

from migrate.model.units import visible


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
