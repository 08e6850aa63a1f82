"""Which names appear in a directory tree, as the Linux kernel tells it: every one, however briefly it is there."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _OVERFLOW = 0x40, 0x80, 0x100, 0x200, 0x4000
_CAME, _WENT = _MOVED_TO | _CREATE, _MOVED_FROM | _DELETE
_NONBLOCK = 0o4000
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 20


class Watch:
    """The directories that were there when it began."""

    def __init__(self, root: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_NONBLOCK)
        assert self._descriptor >= 0, os.strerror(ctypes.get_errno())
        self._folders: dict[int, Path] = {}
        for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
            number = libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _CAME | _WENT)
            assert number >= 0, os.strerror(ctypes.get_errno())
            self._folders[number] = folder

    def changes(self) -> list[tuple[str, Path]]:
        """Every name that "came" into one of them or "went" since the last call, in the kernel's order."""
        return list(self._events())

    def close(self) -> None:
        os.close(self._descriptor)

    def _events(self) -> Iterator[tuple[str, Path]]:
        while True:
            try:
                buffer = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(buffer):
                number, mask, _, length = _EVENT.unpack_from(buffer, at)
                assert not mask & _OVERFLOW, "the kernel dropped events"
                at += _EVENT.size + length
                if mask & (_CAME | _WENT):
                    name = os.fsdecode(buffer[at - length : at].rstrip(b"\0"))
                    yield "came" if mask & _CAME else "went", self._folders[number] / name


@contextmanager
def watching(root: Path) -> Iterator[Watch]:
    """All directories at and below `root`."""
    watch = Watch(root)
    try:
        yield watch
    finally:
        watch.close()
