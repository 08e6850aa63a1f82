"""What goes wrong in a migration, and the exit code that says so (docs/correctness.md, I9).

MigrationError
 ├── SpecError (2)                  the spec or the command cannot be understood
 ├── RefusedError (6)               the ground is not ready; nothing was written that matters
 │    ├── StoreLockedError              a process holds the store
 │    ├── SourceChangedError            the source is not the one that the plan was made for
 │    ├── DamagedLedgerError            the ledger cannot be read: `run` repairs what a power cut tore
 │    ├── FencedError                   another run took the ledger over
 │    └── RegistryError                 the Schema Registry does not give the schema
 ├── ChunkFailedError (3)           a chunk cannot be rewritten, now
 │    ├── RejectedError                 records that cannot be converted, more than allowed
 │    └── CorruptionError               a scan that ended early, or a damaged block
 ├── VerificationError (4)          the new store is not what the old one converts to
 ├── InterruptedMigrationError (5)  stopped before the end; the same command resumes
 └── StoreError                     an open store cannot do what was asked
      ├── StoreClosedError               it, or the iterator, was closed
      ├── StoreNotReadyError             it is being opened, or handed over
      ├── StateStoreMigratedError        the handle is of a store that was replaced
      ├── IllegalTransitionError         its life does not go that way
      ├── StoreFailedError               the storage failed, and the store with it
      │    └── StoreCorruptedError            what it holds is damaged; a CorruptionError too
      └── ConversionError                one record cannot be converted
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any


class ExitCode(IntEnum):
    """Exit codes of every command and of the Spark job (I9: an incomplete run never exits 0)."""

    DONE = 0
    BUG = 1
    USAGE = 2
    FAILED = 3
    MISMATCH = 4
    INTERRUPTED = 5
    REFUSED = 6


class MigrationError(Exception):
    """What happened and where (`message`), and what to do next (`hint`)."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, hint: str = "", place: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place
        """The file or directory that cannot be read, where that is what went wrong."""

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, from an executor to the driver: subclasses take arguments of their own."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class SpecError(MigrationError):
    """The spec or the command line cannot be understood."""

    exit_code = ExitCode.USAGE


class RefusedError(MigrationError):
    """A check before the work found that it must not start."""

    exit_code = ExitCode.REFUSED


class StoreLockedError(RefusedError):
    """A process holds the store. `pid` is 0 where the system does not tell."""

    def __init__(self, message: str, *, pid: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class SourceChangedError(RefusedError):
    """The source is not the one that the stored plan was made for."""


class DamagedLedgerError(RefusedError):
    """The ledger cannot be read, or not to its end."""


class FencedError(RefusedError):
    """Another run of the same migration took the ledger over."""


class RegistryError(RefusedError):
    """The Schema Registry cannot be reached, or does not give the schema that was asked for."""


class ChunkFailedError(MigrationError):
    """A chunk could not be rewritten; what is finished stays, a rerun resumes."""

    exit_code = ExitCode.FAILED


class RejectedError(ChunkFailedError):
    """Records that cannot be converted, and `on_reject` or its caps do not allow that."""


class CorruptionError(ChunkFailedError):
    """A scan ended before its range did: a damaged block, or a file that cannot be read (I4)."""


class VerificationError(MigrationError):
    """The new store differs from what the old one converts to."""

    exit_code = ExitCode.MISMATCH


class InterruptedMigrationError(MigrationError):
    """Stopped before the end."""

    exit_code = ExitCode.INTERRUPTED


class StoreError(MigrationError):
    """An open store cannot do what was asked."""


class StoreClosedError(StoreError):
    """The store, or the iterator, was closed."""


class StoreNotReadyError(StoreError):
    """The store is being opened or handed over; ask again, or wait until it runs."""


class StateStoreMigratedError(StoreError):
    """The store behind this handle was replaced: resolve it again, do not retry on this one."""


class IllegalTransitionError(StoreError):
    """A state of a store's life that cannot follow the present one."""


class StoreFailedError(StoreError):
    """The storage failed; `__cause__` says how. The store stays in ERROR."""

    exit_code = ExitCode.FAILED


class StoreCorruptedError(StoreFailedError, CorruptionError):
    """The storage failed, since what it holds is damaged."""


class ConversionError(StoreError):
    """One record cannot be converted; it stays in the old store as it is."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, *, key: bytes, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key
        self.reason = reason


_SPACE = "make space on that disk, then run the same command again: what is finished is kept"
_RIGHTS = "run as the application's user, or change the owner or the mode of that path; then run the same command again"
_FILES = "raise the limit of open files (ulimit -n), then run the same command again: what is finished is kept"
_TERMINAL_COLOUR = re.compile(r"\x1b\[\d+m")
_KNOWN: tuple[tuple[int, type[MigrationError], str], ...] = (
    (errno.ENOSPC, ChunkFailedError, _SPACE),
    (errno.EDQUOT, ChunkFailedError, _SPACE),
    (errno.EIO, ChunkFailedError, "the disk fails: see the system's log; what is finished is kept, a rerun resumes"),
    (errno.EMFILE, ChunkFailedError, _FILES),
    (errno.ENFILE, ChunkFailedError, _FILES),
    (errno.EXDEV, RefusedError, "put work_dir on the file system of the state directory, or name a [target] path"),
    (errno.EBUSY, RefusedError, "is it a mount point? put a plain directory there, or name a [target] path"),
    (errno.EROFS, RefusedError, "mount that file system for writing, or choose another work_dir"),
    (errno.EACCES, RefusedError, _RIGHTS),
    (errno.EPERM, RefusedError, _RIGHTS),
)


@contextmanager
def system_errors_explained() -> Iterator[None]:
    """Raises what the system refused as a MigrationError; every other exception goes through as it is."""
    try:
        yield
    except MigrationError:
        raise
    except Exception as error:
        known = explain_system_error(error)
        if known is None:
            raise
        raise known from error


def explain_system_error(error: BaseException, *, where: str = "") -> MigrationError | None:
    """The operator's version of it, or None; `where`: what failed, if the error does not say.

    RocksDB and delta-rs keep the system's words, but not its number.
    """
    number = error.errno if isinstance(error, OSError) else None
    text = " ".join(_TERMINAL_COLOUR.sub("", str(error)).split())
    for known, kind, hint in _KNOWN:
        if number == known or (number is None and os.strerror(known) in text):
            return kind(": ".join(filter(None, (where, _in_words(error, text)))), hint=hint)
    return None


def _in_words(error: BaseException, text: str) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return ": ".join(str(part) for part in (error.strerror, error.filename2 or error.filename) if part)
    return text
