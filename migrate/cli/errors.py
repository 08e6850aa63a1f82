"""From exceptions to messages and exit codes (I9), for the command and the Spark job alike."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import NoReturn, ParamSpec

import click
from click.core import ParameterSource

from migrate.batch.stop import RERUN
from migrate.cli.options import current_output
from migrate.errors import ExitCode, MigrationError
from migrate.show.output import Output
from migrate.show.streams import streams_are_one, write_err, write_out

P = ParamSpec("P")

_REPORT_IT = "please report it with the traceback; finished work is kept, and a rerun resumes"


def verb(work: Callable[P, int | None]) -> Callable[P, NoReturn]:
    """Make a verb of `work`: exit with the code that it returns, with 0 for None, or with the code of its error.

    SIGTERM is handled like an interrupt.
    """

    @wraps(work)
    def exiting(*args: P.args, **options: P.kwargs) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        sys.exit(exit_code_of(lambda: work(*args, **options), current_output()))

    return exiting


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Run without the cyclic garbage collector: a long ledger is read, and all that is read is kept."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def exit_code_of(command: Callable[[], int | None], output: Output) -> int:
    """Run the command, report an error if there is one, and return the exit code."""
    from migrate.errors import explain_system_error
    from migrate.model import reports  # noqa: F401 - an error may be that no further file can be opened
    from migrate.show import foreign_text  # noqa: F401

    if output.verbosity:
        _show_log_of_spark(output.verbosity)
    try:
        return command() or ExitCode.DONE
    except MigrationError as error:
        _report(error.message, error.hint, error.exit_code, output)
        return error.exit_code
    except KeyboardInterrupt:
        _report("interrupted", RERUN, ExitCode.INTERRUPTED, output)
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a bug is reported with its own code and a traceback
        if (known := explain_system_error(error)) is not None:
            _report(known.message, known.hint, known.exit_code, output)
            return known.exit_code
        _report(f"this is a bug: {type(error).__name__}: {error}", _REPORT_IT, ExitCode.BUG, output, is_bug=True)
        return ExitCode.BUG


def _show_log_of_spark(verbosity: int) -> None:
    import logging

    from migrate.batch.log import SPARK_LOGGER

    logging.getLogger(SPARK_LOGGER).setLevel(logging.WARNING if verbosity == 1 else logging.INFO)


def report_usage_error(error: click.ClickException, output: Output) -> ExitCode:
    """Report a command line that click cannot parse, like any other error."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        write_err(error.format_message())
        return ExitCode.USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "stateferry" if context is None else context.command_path
    about = getattr(error.param, "help", None) if isinstance(error, click.MissingParameter) else _variable(error)
    message = f"{error.format_message()} {about or ''}".rstrip()
    _report(message, f"see {path} --help", ExitCode.USAGE, output)
    return ExitCode.USAGE


def _variable(error: click.ClickException) -> str:
    """Where a value comes from that nobody typed."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None or not error.param.name:
        return ""
    is_given = error.ctx.get_parameter_source(error.param.name) is ParameterSource.ENVIRONMENT
    return f"It is the value of {error.param.envvar}." if is_given else ""


def _report(message: str, hint: str, code: ExitCode, output: Output, *, is_bug: bool = False) -> None:
    from migrate.show.foreign_text import visible_json, visible_message

    message, hint = visible_message(output.named(message)), visible_message(output.named(hint))
    trace = traceback.format_exc() if is_bug or output.debug else ""
    if not (output.as_json and streams_are_one()):  # else the document has it all
        if output.json_log:
            failed = {"next": hint, "exit_code": int(code)} | ({"trace": trace} if trace else {})
            write_err(output.log_line("error", "stateferry", message, **failed))
        else:
            write_err(f"{trace}stateferry: {message}" + (f"\n  next: {hint}" if hint else ""))
    if output.as_json:
        from migrate.model.reports import ErrorReport, Failure

        failure = Failure(message=message, next=hint, exit_code=int(code), trace=trace)
        with suppress(OSError):  # a full disk may be the error itself
            write_out(visible_json(ErrorReport(error=failure).model_dump_json(indent=2)))
