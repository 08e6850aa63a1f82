"""What an executor's Python tells of itself. Imports nothing heavy: a missing package must end in a sentence."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.resources
import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

NEEDED = ("rocksdict", "fastavro", "numpy", "pyarrow", "pydantic", "xxhash")
COMPARED = ("pyspark", "rocksdict")
"""Whose versions must be the driver's: rocksdict carries RocksDB, which decides what is written."""
OUR_PACKAGES = ("formats", "migrate", "jobs")
PROBE_PREFIX = ".stateferry-probe-"


@dataclass(frozen=True, slots=True)
class Looked:
    """One directory, as it is seen from here."""

    entries: frozenset[str] | None
    """The names in it; None: it is not there, or cannot be read."""
    is_writable: bool
    sees_probe: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """One executor's Python."""

    host: str
    time: float
    versions: dict[str, str]
    """Of the packages that matter, by name; like `code`, empty for a brief question."""
    broken: dict[str, str]
    """Packages that cannot be imported, and why."""
    code: str
    """Digest of our own code."""
    source: Looked
    work_dir: Looked
    free_memory: int | None
    """Bytes; None: the host does not tell."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to look at."""

    source: str
    work_dir: str
    """The nearest folder of the work_dir that exists."""
    probe: str | None
    """The name of a file that the driver put there; None: nothing may be written there."""
    is_brief: bool = False
    """Only about packages and directories, which takes no time."""


def look(question: Question) -> Probe:
    """Look around, here."""
    broken: dict[str, str] = {}
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever a package's import raises is what is to be told
            broken[name] = f"{type(error).__name__}: {error}"
    return Probe(
        host=socket.gethostname(),
        time=time.time(),
        versions={} if question.is_brief else versions(),
        broken=broken,
        code="" if question.is_brief else code_digest(),
        source=_look_at(question.source, None),
        work_dir=_look_at(question.work_dir, question.probe),
        free_memory=free_memory(),
    )


def versions() -> dict[str, str]:
    """Of what must be the same on all of them."""
    found = {}
    for name in COMPARED:
        with suppress(importlib.metadata.PackageNotFoundError, ImportError):
            # Spark's own distribution has a pyspark that was never installed by pip
            module = importlib.import_module(name)
            found[name] = getattr(module, "__version__", None) or importlib.metadata.version(name)
    return found


def code_digest() -> str:
    """Of every module of ours, whether it came in a zip or is installed."""
    digest = hashlib.sha256()
    for package in OUR_PACKAGES:
        _add_modules(digest, importlib.resources.files(package), package)
    return digest.hexdigest()


def _add_modules(digest: Any, folder: Traversable, path: str) -> None:  # noqa: ANN401 - hashlib names no type
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            digest.update(f"{path}/{entry.name}\n".encode() + entry.read_bytes())
        elif entry.is_dir() and entry.name != "__pycache__":
            _add_modules(digest, entry, f"{path}/{entry.name}")


def entries_of(folder: str) -> frozenset[str] | None:
    """The names in a directory, but for probes; None where it cannot be read."""
    try:
        return frozenset(entry.name for entry in Path(folder).iterdir() if not entry.name.startswith(PROBE_PREFIX))
    except OSError:
        return None


def _look_at(folder: str, probe: str | None) -> Looked:
    is_writable, sees_probe = os.access(folder, os.W_OK), True
    if probe is not None and (sees_probe := Path(folder, probe).exists()):
        is_writable = _can_write(Path(folder, f"{probe}-{uuid.uuid4().hex}"))
    return Looked(entries=entries_of(folder), is_writable=is_writable, sees_probe=sees_probe)


def _can_write(file: Path) -> bool:
    try:
        file.write_bytes(b"")
        file.unlink()
    except OSError:
        return False
    return True


def free_memory() -> int | None:
    """What processes here may still take: of the host, and of the container that this may be."""
    free = [_of_host(), _of_container()]
    return min((size for size in free if size is not None), default=None)


def _of_host() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _of_container() -> int | None:
    folder = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text(encoding="ascii"))  # "max" is no number
        return max(0, limit - int((folder / "memory.current").read_text(encoding="ascii")))
    return None
