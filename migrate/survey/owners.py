"""Which processes hold what lies in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from migrate.survey.report import OwnerReport


def owners_of(holders: Mapping[Path, int]) -> tuple[OwnerReport, ...]:
    """Each process once, with the lock files that it holds."""
    files: dict[int, list[Path]] = {}
    for file, pid in holders.items():
        files.setdefault(pid, []).append(file)
    return tuple(OwnerReport(pid=pid, command=_command(pid), files=tuple(files[pid])) for pid in sorted(files))


def _command(pid: int) -> str:
    """As Linux tells it: the program's name alone, since arguments may hold secrets."""
    try:
        return Path("/proc", str(pid), "comm").read_text(encoding="utf-8", errors="replace").strip() if pid else ""
    except OSError:  # another system than Linux, or it has just ended
        return ""
