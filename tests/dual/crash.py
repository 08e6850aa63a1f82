"""What a crash of the process leaves: the files as they stand, with nothing closed."""

import shutil
from pathlib import Path

_UNSTEADY = ("LOG", "LOG.old.*")
"""RocksDB's own diary, which it writes when it likes."""


def copy_as_it_stands(source: Path, target: Path) -> None:
    """A copy of one instant: tried again while RocksDB's background threads change the directory."""
    while True:
        before = _files(source)
        shutil.rmtree(target, ignore_errors=True)
        try:
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_UNSTEADY))
        except (shutil.Error, FileNotFoundError):
            continue
        if _files(source) == before:
            return


def _files(folder: Path) -> dict[str, tuple[int, int]] | None:
    """None, which equals no other: a file went meanwhile."""
    try:
        states = {path: path.stat() for path in folder.rglob("*") if not path.name.startswith("LOG")}
    except FileNotFoundError:
        return None
    return {str(path): (state.st_size, state.st_mtime_ns) for path, state in states.items() if path.is_file()}
