"""The errors of a migration, and their exit codes (docs/correctness.md, I9); docs/api.md has a table of them."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Any

from migrate.library_messages import has_errno


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
    """An error with `message`, what happened and where, and `hint`, what to do next."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, hint: str = "", place: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place
        """The file or directory that cannot be read, if that is the cause."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without `__init__`, whose arguments differ in subclasses: executors send errors to the driver."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class SpecError(MigrationError):
    """The spec or the command line cannot be understood."""

    exit_code = ExitCode.USAGE


class RefusedError(MigrationError):
    """A check found that the command must not start."""

    exit_code = ExitCode.REFUSED


class StoreLockedError(RefusedError):
    """A process holds the store. `pid` is 0 where the system does not report it."""

    def __init__(self, message: str, *, pid: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class SourceChangedError(RefusedError):
    """The source changed since the stored plan was made."""


class DamagedLedgerError(RefusedError):
    """The ledger, or a part of it, cannot be read."""


class FencedError(RefusedError):
    """Another run of the same migration took over the ledger."""


class MissingPackageError(RefusedError):
    """A package of an extra is not installed."""


class RegistryError(RefusedError):
    """The Schema Registry cannot be reached, or does not return the requested schema."""


class BrokerError(RefusedError):
    """A Kafka broker cannot be reached, or refuses a request."""


class ChunkFailedError(MigrationError):
    """A chunk could not be rewritten; finished chunks are kept, and a rerun resumes."""

    exit_code = ExitCode.FAILED


class RejectedError(ChunkFailedError):
    """More records than `on_reject` and its caps allow cannot be converted."""


class DroppedError(ChunkFailedError):
    """The function drops more records than the spec allows."""


class CorruptionError(ChunkFailedError):
    """A scan ended before its range did, because of a damaged block or an unreadable file (I4)."""


class ChangelogFailedError(ChunkFailedError):
    """A changelog could not be written, or read to its end; what the broker has confirmed is kept."""


class VerificationError(MigrationError):
    """The new store differs from the converted old one."""

    exit_code = ExitCode.MISMATCH


class InterruptedMigrationError(MigrationError):
    """The command was stopped before its end."""

    exit_code = ExitCode.INTERRUPTED


class StoreError(MigrationError):
    """An open store cannot do what was requested."""


class InvalidStateStoreError(StoreError):
    """The store cannot be read through this handle, or under this name and type."""


class StoreClosedError(InvalidStateStoreError):
    """The store or the iterator was closed."""


class StoreNotReadyError(InvalidStateStoreError):
    """The store is being opened or handed over: retry, or wait until it runs."""


class StateStoreMigratedError(InvalidStateStoreError):
    """The store behind this handle was replaced: get a new handle, do not retry on this one."""


class UnknownStateStoreError(InvalidStateStoreError):
    """There is no store of this name."""

    exit_code = ExitCode.REFUSED


class InvalidStateStorePartitionError(InvalidStateStoreError):
    """The partition is not on this host: ask the host that has it."""


class IllegalTransitionError(StoreError):
    """The requested lifecycle state cannot follow the store's present one."""


class StoreFailedError(StoreError):
    """The storage failed, as `__cause__` states. The store stays in ERROR."""

    exit_code = ExitCode.FAILED


class StoreCorruptedError(StoreFailedError, CorruptionError):
    """The storage failed because its data is damaged."""


class ConversionError(StoreError):
    """One record cannot be converted: that of `key`, for `reason`. It stays unchanged in the old store."""

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
_EXTRA_OF = {
    "confluent_kafka": "kafka",
    "deltalake": "batch",
    "faust": "faust",
    "faust-streaming": "faust",
    "jinja2": "batch",
    "numba": "batch",
    "pyarrow": "batch",
    "py4j": "spark",
    "pyspark": "spark",
    "quixstreams": "quix",
    "starlette": "serve",
    "uvicorn": "serve",
}
"""The extra that installs a package."""


@contextmanager
def system_errors_explained() -> Iterator[None]:
    """Raises errors of the operating system, and missing packages, as MigrationErrors; other exceptions pass."""
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
    """The MigrationError for an error of the operating system or for a missing package, or None.

    `where`: what failed, if the error lacks it.
    """
    if isinstance(error, ModuleNotFoundError):
        return _missing_package(error, where)
    number = error.errno if isinstance(error, OSError) else None
    text = " ".join(_TERMINAL_COLOUR.sub("", str(error)).split())
    for known, kind, hint in _KNOWN:
        if number == known or (number is None and has_errno(text, known)):
            if isinstance(error, OSError) and error.strerror is not None:
                text = ": ".join(str(part) for part in (error.strerror, error.filename2 or error.filename) if part)
            return kind(": ".join(filter(None, (where, text))), hint=hint)
    return None


def _missing_package(error: ModuleNotFoundError, where: str) -> MissingPackageError | None:
    extra = _EXTRA_OF.get(error.name or "")
    if extra is None:
        return None
    otherwise = ", or work without Spark: --no-spark, or for a run --jobs N" if extra == "spark" else ""
    text = ": ".join(filter(None, (where, f"the package {error.name} is not installed")))
    return MissingPackageError(text, hint=f"pip install 'stateferry[{extra}]'{otherwise}")


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The question after the most similar known name, or `otherwise` where none is similar."""
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else otherwise
