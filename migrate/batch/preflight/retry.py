"""Looking at files that their owner changes meanwhile: what has gone is looked for once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from migrate.errors import MigrationError, RefusedError, StoreLockedError

LOOKS = 5
T = TypeVar("T")


def with_retries(look: Callable[[], T], *, is_in_use: bool, looks: int = LOOKS) -> T:
    """What `look` returns; where the owner runs, it may have removed a file in the middle of a look.

    Raises MigrationError, as the last look did.
    """
    for left in reversed(range(looks if is_in_use else 1)):
        try:
            return look()
        except StoreLockedError:
            raise
        except (MigrationError, FileNotFoundError) as error:
            if not left:
                raise as_migration_error(error) from error
    raise AssertionError("the last look returns or raises")


def as_migration_error(error: MigrationError | FileNotFoundError) -> MigrationError:
    """The operator's version of a file that has gone."""
    if isinstance(error, MigrationError):
        return error
    return RefusedError(f"{error.filename} is not there any more", hint="its owner has removed it: run this once more")
