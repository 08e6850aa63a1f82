"""The command and its verbs: common options, usage errors, exit codes (I9), and signals (a second one ends at once)."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import Any, NoReturn, ParamSpec

import click
from click.core import ParameterSource

from migrate.batch.stop import GRACE_SECONDS, RERUN, Stop
from migrate.cli.options import add_common_options, current_output, read_environment, spec_argument
from migrate.errors import ExitCode, MigrationError, explain_system_error
from migrate.show.output import Output, prepare_streams, streams_are_one, write_err, write_out
from migrate.show.plain import visible_json, visible_message

PROGRAM = "stateferry"
P = ParamSpec("P")
_REPORT_IT = "please report it with the traceback; finished work is kept, and a rerun resumes"
_STOPPING = f"\nstateferry: stop requested: running chunks get {GRACE_SECONDS:.0f} s; interrupt again to end at once\n"
_FINISHING = "\nstateferry: stop requested: this short step is finished first; interrupt again to end at once\n"
_AT_ONCE = f"\nstateferry: interrupted\n  next: {RERUN}\n"


class Job(click.Command):
    """A command with the common options, which reports usage errors like all others."""

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **attributes)
        add_common_options(self)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's own
        """Run the command; a command line that cannot be parsed ends like any other error."""
        prepare_streams()
        arguments = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(arguments, **{"prog_name": PROGRAM, **extra, "standalone_mode": False})
        except click.ClickException as error:
            json_log = "--log-format json" in " ".join(arguments).replace("=", " ")
            output = Output(as_json="--json" in arguments, debug="--debug" in arguments, json_log=json_log)
            code = report_usage_error(error, output)
        sys.exit(code)


class Verbs(Job, click.Group):
    """A group whose verbs take the common options, before the verb or after it."""

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **attributes)
        self.sections: dict[str, list[click.Command]] = {}
        """Title in the help to verbs, in the order of work."""

    def add_section(self, title: str, *verbs: click.Command) -> None:
        self.sections[title] = [*verbs]
        for verb in verbs:
            add_common_options(verb)
            read_environment(verb)
            self.add_command(verb)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of work."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.commands), default=0)
        for title, verbs in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{verb.name:<{widest}}", verb.get_short_help_str(limit=120)) for verb in verbs])


def verb(work: Callable[P, int | None]) -> Callable[P, NoReturn]:
    """Make a verb of `work`: exit with the code that it returns, with 0 for None, or with the code of its error.

    SIGTERM is handled like an interrupt.
    """

    @wraps(work)
    def exiting(*args: P.args, **options: P.kwargs) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        sys.exit(exit_code_of(lambda: work(*args, **options), current_output()))

    return exiting


def spec_verb(work: Callable[..., int | None]) -> Callable[..., NoReturn]:
    """Make a verb with the argument SPEC of `work`, which gets the spec itself."""

    @wraps(work)
    def loading(spec: str, **options: object) -> int | None:
        from migrate.spec.spec import load_spec

        return work(load_spec(spec), **options)

    return spec_argument(verb(loading))


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
    from migrate.model import reports  # noqa: F401 - an error may be that no further file can be opened

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


@contextmanager
def stopping_on_signals(stop: Stop, patience: float | None = 2 * GRACE_SECONDS) -> Iterator[None]:
    """Let SIGINT and SIGTERM request a stop, and a second one end this process. Only the main thread can do so.

    Unfinished work is redone by the next run, so that a step which does not stop within `patience` seconds is ended as
    by a second signal; with None the step is always finished.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    stopping, at_once = map(_line, (_FINISHING if patience is None else _STOPPING, _AT_ONCE))

    def end() -> None:
        _write(at_once)
        os._exit(ExitCode.INTERRUPTED)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.was_just_requested:
            return
        if stop.is_requested:
            end()
        stop.request()
        if patience is not None:
            watchdog.start()
        _write(stopping)

    watchdog = threading.Timer(patience or 0.0, end)
    watchdog.daemon = True
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        watchdog.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(text: str) -> None:
    with suppress(OSError):  # the reader may be gone: a terminal sends the signal to all of a pipeline
        os.write(2, text.encode())


def _line(text: str) -> str:
    """The text, or a line of a log of JSON objects."""
    output = current_output()
    return f"{output.log_line('warning', 'stateferry', ' '.join(text.split()))}\n" if output.json_log else text
