"""From exceptions to messages and exit codes (I9), for the command and the Spark job alike."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import NoReturn, ParamSpec

import click

from migrate.batch.stop import RERUN
from migrate.cli.options import current_output
from migrate.errors import ExitCode, MigrationError
from migrate.show.output import Output
from migrate.show.streams import remark, say, streams_are_one

P = ParamSpec("P")

_REPORT_IT = "report it with the trace; nothing that was finished is lost, a rerun resumes"


def verb(work: Callable[P, int | None]) -> Callable[P, NoReturn]:
    """The function of a verb: it exits with what `work` returns, else with 0, or as its error says.

    SIGTERM is an interrupt like any other.
    """

    @wraps(work)
    def exiting(*args: P.args, **options: P.kwargs) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        sys.exit(exit_code_of(lambda: work(*args, **options), current_output()))

    return exiting


def exit_code_of(command: Callable[[], int | None], output: Output) -> int:
    """Run the command; say what went wrong, and return it as an exit code."""
    from migrate.errors import explain_system_error

    try:
        return command() or ExitCode.DONE
    except MigrationError as error:
        _tell(error.message, error.hint, error.exit_code, output)
        return error.exit_code
    except KeyboardInterrupt:
        _tell("interrupted", RERUN, ExitCode.INTERRUPTED, output)
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug gets a code and a trace, not a guess
        if (known := explain_system_error(error)) is not None:
            _tell(known.message, known.hint, known.exit_code, output)
            return known.exit_code
        _tell(f"this is a bug: {type(error).__name__}: {error}", _REPORT_IT, ExitCode.BUG, output, is_bug=True)
        return ExitCode.BUG


def tell_usage_error(error: click.ClickException, output: Output) -> ExitCode:
    """What click could not understand, said like everything else."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        remark(error.format_message())
        return ExitCode.USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "stateferry" if context is None else context.command_path
    _tell(error.format_message(), f"{path} --help says what there is", ExitCode.USAGE, output)
    return ExitCode.USAGE


def _tell(message: str, hint: str, code: ExitCode, output: Output, *, is_bug: bool = False) -> None:
    from migrate.show.foreign_text import visible_json, visible_message

    message, hint = visible_message(message), visible_message(hint)
    trace = traceback.format_exc() if is_bug or output.debug else ""
    if not (output.as_json and streams_are_one()):  # else it is all in the document
        remark(f"{trace}stateferry: {message}" + (f"\n  next: {hint}" if hint else ""))
    if output.as_json:
        from migrate.model.reports import ErrorReport, Failure

        failure = Failure(message=message, next=hint, exit_code=int(code), trace=trace)
        with suppress(OSError):  # that may be what went wrong
            say(visible_json(ErrorReport(error=failure).model_dump_json(indent=2)))
