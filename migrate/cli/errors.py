"""From exceptions to messages and exit codes (I9), for the command and the Spark job alike."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

import click

from migrate.errors import ExitCode, MigrationError


def finish(work: Callable[[], None]) -> None:
    """What each verb does in the end. SIGTERM is an interrupt like any other."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(exit_code_of(work, debug=click.get_current_context().find_root().obj))


def _say(sentence: str) -> None:
    with suppress(OSError):  # nobody may be listening any more, and the exit code still counts
        print(sentence, file=sys.stderr, flush=True)


def exit_code_of(command: Callable[[], None], *, debug: bool) -> ExitCode:
    """Run the command; print what went wrong, and say it as an exit code."""
    try:
        command()
    except MigrationError as error:
        if debug:
            traceback.print_exc()
        _say(f"stateferry: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("stateferry: interrupted\n  next: run the same command again to resume")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug gets a code and a trace, not a guess
        traceback.print_exc()
        print(
            f"stateferry: this is a bug: {type(error).__name__}: {error}\n"
            "  next: report it with the trace above; nothing that was finished is lost, a rerun resumes",
            file=sys.stderr,
        )
        return ExitCode.BUG
    return ExitCode.DONE
