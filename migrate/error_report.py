"""What `--json` prints where a command fails."""

from __future__ import annotations

from migrate.report_model import Report, Value


class Failure(Value):
    """What went wrong; standard error has it too."""

    message: str
    """What happened, and where."""
    next: str
    """What to do."""
    exit_code: int
    trace: str = ""
    """The traceback: of a bug, and with --debug."""


class ErrorReport(Report):
    """In place of the report of a command that failed, whatever the command."""

    error: Failure
