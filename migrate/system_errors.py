"""What the operating system refuses while a migration runs: a full disk is the operator's to mend, and no bug."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from migrate.errors import ChunkFailedError, MigrationError, RefusedError

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
