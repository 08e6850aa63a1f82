"""A trace of the record that a worker converts, for a chunk on which a worker has died before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LENGTH_SIZE = 4


@contextmanager
def leaving_breadcrumbs(file: str | None) -> Iterator[Callable[[bytes], None] | None]:
    """The function to call with each key before its record is converted; None without a file for the trace."""
    if file is None:
        yield None
        return
    crumb = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        yield lambda key: _leave(crumb, key)
    finally:
        os.close(crumb)


def _leave(crumb: int, key: bytes) -> None:
    os.pwrite(crumb, len(key).to_bytes(_LENGTH_SIZE, "big") + key, 0)


def read_breadcrumb(file: Path) -> bytes | None:
    """The key whose record a worker was converting when it died."""
    content = file.read_bytes() if file.exists() else b""
    if len(content) < _LENGTH_SIZE:
        return None
    return content[_LENGTH_SIZE : _LENGTH_SIZE + int.from_bytes(content[:_LENGTH_SIZE], "big")]
