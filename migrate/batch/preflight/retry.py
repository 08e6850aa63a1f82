"""Retries of reads while the files' owner runs, and may remove some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from migrate.errors import MigrationError, RefusedError, StoreLockedError

ATTEMPTS = 5
T = TypeVar("T")


def with_retries(read: Callable[[], T], *, is_in_use: bool, attempts: int = ATTEMPTS) -> T:
    """The result of `read`, retried where the owner runs, which may remove a file during an attempt.

    Raises the MigrationError of the last attempt.
    """
    for left in reversed(range(attempts if is_in_use else 1)):
        try:
            return read()
        except StoreLockedError:
            raise
        except (MigrationError, FileNotFoundError) as error:
            if not left:
                raise as_migration_error(error) from error
    raise AssertionError("the last attempt returns or raises")


def as_migration_error(error: MigrationError | FileNotFoundError) -> MigrationError:
    """The error for the operator, also for a file that was removed."""
    if isinstance(error, MigrationError):
        return error
    return RefusedError(f"{error.filename} was removed by its owner", hint="run the command again")
