"""The frame of a command that commits: its folder is locked, what a kill has left is settled, the ledger is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from migrate.batch.context import Context, check_home
from migrate.batch.home import finish_abandoned
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import read_repaired
from migrate.batch.log import RunLog
from migrate.batch.run_lock import one_run_at_a_time
from migrate.errors import FencedError, InterruptedMigrationError
from migrate.model.events import each_of
from migrate.model.ledger_row import Row


def _repaired(context: Context) -> Sequence[Row]:
    finish_abandoned(context.home)
    return read_repaired(context.home, context.warn, log=context.log)


@contextmanager
def command(
    context: Context,
    *,
    before_lock: Callable[[], None] | None = None,
    rows: Callable[[Context], Sequence[Row]] = _repaired,
) -> Iterator[Context]:
    """The frame of a command: the folder is ours and locked, what a kill has left is settled, the standing is read.

    `before_lock`: checks that come before the folder is made. `rows`: reads the ledger's rows. Raises RefusedError.
    """
    context.listener = each_of(RunLog(context.spec.name), context.listener)
    with _alone(context):
        check_home(context.spec)
        if before_lock is not None:
            before_lock()
        with one_run_at_a_time(context.home):
            context.standing = Standing(context.home, rows(context))
            yield context


@contextmanager
def _alone(context: Context) -> Iterator[None]:
    """Raises FencedError in place of any error that comes after a run of another host has taken over.

    No lock reaches from host to host. Until the ledger is opened, a file of the folder that vanishes shows that run.
    An interruption stays one: whoever asked for it knows why the command ends.
    """
    try:
        yield
    except InterruptedMigrationError:
        raise
    except Exception as error:
        if context.has_ledger:
            context.ledger.check_not_fenced()
        gone = _vanished(context, error)
        if gone is None:
            raise
        raise FencedError(
            f"{gone} vanished: another run of this migration is at work in {context.home}, on another host",
            hint="let that run finish (stateferry status SPEC), or stop it; then run the command again",
        ) from error


def _vanished(context: Context, error: Exception) -> str | None:
    """What is gone of the folder, as only a command on another host removes it; None: nothing that is known of."""
    if context.has_ledger and not context.home.is_dir():
        return str(context.home)
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        return None
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
    return next((name for name in names if Path(name).is_relative_to(context.home)), None)
