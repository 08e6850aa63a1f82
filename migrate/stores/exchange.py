"""Exchanging two directories in one step, so that a reader finds one or the other at any time.

Linux: renameat2(2) with RENAME_EXCHANGE (ext4, XFS, Btrfs, tmpfs, overlayfs). macOS: renamex_np(2) with RENAME_SWAP
(APFS). NFS and some FUSE file systems have neither.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
_NOTHING = ".stateferry-nothing"
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


class ExchangeUnsupportedError(OSError):
    """The operating system, or the file system, cannot exchange two directories."""


def exchange(first: Path, second: Path) -> None:
    """Exchange two names atomically; durable only after both parents are synced.

    Raises ExchangeUnsupportedError, or OSError as rename(2) does.
    """
    call = _system_call()
    if call is None:
        raise ExchangeUnsupportedError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(first))
    number = call(os.fsencode(first), os.fsencode(second))
    if number == 0:
        return
    kind = ExchangeUnsupportedError if number in _UNSUPPORTED else OSError
    raise kind(number, os.strerror(number), str(first), None, str(second))


def can_rename(folder: Path, other: Path) -> bool:
    """Whether files can be renamed between two directories: not across file systems, nor across mounts of one.

    Tested by renaming a missing file: Linux refuses that across mounts before it searches the name.
    """
    try:
        (folder / _NOTHING).rename(other / _NOTHING)
    except OSError as error:
        return error.errno != errno.EXDEV and folder.stat().st_dev == other.stat().st_dev
    return True


def can_exchange(folder: Path) -> bool:
    """Whether the file system of `folder` can exchange directories, tested with two temporary ones."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".exchange-") as made:
        first, second = Path(made, "first"), Path(made, "second")
        first.mkdir()
        second.mkdir()
        try:
            exchange(first, second)
        except ExchangeUnsupportedError:
            return False
    return True


def _system_call() -> Callable[[bytes, bytes], int] | None:
    """The function that exchanges two paths and returns an errno, 0 for success; None: the system has none."""
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        swap = getattr(library, "renamex_np", None)
        return swap and (lambda first, second: _errno(swap(first, second, ctypes.c_uint(_RENAME_SWAP))))
    rename = getattr(library, "renameat2", None)
    return rename and (
        lambda first, second: _errno(rename(_AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_RENAME_EXCHANGE)))
    )


def _errno(result: int) -> int:
    return 0 if result == 0 else ctypes.get_errno()
