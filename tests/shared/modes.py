"""Who may read what, by mode bits alone."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import copy_fixture


@contextmanager
def public_folder() -> Iterator[Path]:
    """A directory that everybody gets into, and the usual umask."""
    made = Path(tempfile.mkdtemp(prefix="stateferry-test-", dir="/tmp")).resolve()
    made.chmod(0o755)
    before = os.umask(0o022)
    try:
        yield made
    finally:
        os.umask(before)
        shutil.rmtree(made)


def make_application(folder: Path, *, directories: int, files: int) -> Path:
    """A real application's directory, with these modes throughout."""
    application = copy_fixture(folder)
    for path in (application, *application.rglob("*")):
        path.chmod(directories if path.is_dir() else files)
    return application


def read_by_others(base: Path, *, group: bool = False) -> list[str]:
    """Files below `base` that others, or the group, may open, and that are not empty."""
    read, enter = (stat.S_IRGRP, stat.S_IXGRP) if group else (stat.S_IROTH, stat.S_IXOTH)

    def is_open(path: Path) -> bool:
        above = [each for each in path.parents if each.is_relative_to(base)]
        return bool(path.stat().st_mode & read) and all(each.stat().st_mode & enter for each in above)

    return [str(path) for path in base.rglob("*") if path.is_file() and path.stat().st_size and is_open(path)]
