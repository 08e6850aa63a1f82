"""Writing a page: the whole of it at once, or none of it."""

from __future__ import annotations

import os
from pathlib import Path

from migrate.errors import SpecError
from migrate.stores.files import write_durably


def page_path(name: str) -> Path:
    """Where the page will be; asked before the work that it tells of. Raises SpecError where no file can be there."""
    path = Path(name).expanduser().absolute()
    if path.is_dir():
        raise SpecError(f"--html {path} is a directory", hint="name a file in it, like report.html")
    if not path.parent.is_dir():
        raise SpecError(f"--html {path}: there is no directory {path.parent}", hint="make it first, or name another")
    if not os.access(path.parent, os.W_OK):
        raise SpecError(f"--html {path}: cannot write to {path.parent}", hint="name a file elsewhere")
    return path


def write_page(path: Path, page: str) -> None:
    """Over one that was there before."""
    write_durably(path, page.encode())
