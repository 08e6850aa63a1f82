"""Folders on another file system than a given one."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FOLDERS = (Path("/dev/shm"), Path("/var/tmp"), Path.home())


@contextmanager
def folder_elsewhere(path: Path) -> Iterator[Path]:
    """An empty folder on another file system than `path`, wherever `TMPDIR` lies; skips where there is only one."""
    device = path.stat().st_dev
    for folder in _FOLDERS:
        if folder.is_dir() and os.access(folder, os.W_OK) and folder.stat().st_dev != device:
            made = Path(tempfile.mkdtemp(prefix="stateferry-test-", dir=folder))
            break
    else:
        pytest.skip("needs a second file system")
    try:
        yield made
    finally:
        shutil.rmtree(made)
