"""The probe that runs in an executor's Python. It imports no package: those may be missing."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from migrate.model.packages import NEEDED_BY_TASKS, OUR_PACKAGES, RARELY_NEEDED
from migrate.stores.files import write_durably

COMPARED = ("pyspark", "rocksdict")
"""Packages that need the driver's version: rocksdict contains RocksDB, which determines what is written."""
PROBE_PREFIX = ".stateferry-probe-"


@dataclass(frozen=True, slots=True)
class SharedProbe:
    """What an executor sees of the driver's file, and the file of its own that it leaves for the driver."""

    content: str | None
    """Of the driver's file; None: it cannot be read."""
    left: str | None
    """The name and the content of its own file, synced and renamed; None: it cannot be written so."""
    is_linked: bool
    """Whether its own file has a second name, a hard link."""
    error: str = ""
    """Why there is no such file."""


@dataclass(frozen=True, slots=True)
class DirectoryProbe:
    """One directory as an executor sees it."""

    entries: frozenset[str] | None
    """The names in it; None if it does not exist or cannot be read."""
    is_writable: bool
    sees_probe: bool
    shared: SharedProbe | None = None
    """None where the driver has no file, or it is not seen."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one executor's Python reports."""

    host: str
    time: float
    versions: dict[str, str]
    """Version of each package in COMPARED; empty, like `code`, for a brief request."""
    broken: dict[str, str]
    """Packages that cannot be imported, with the error."""
    code: str
    """Digest of our own code."""
    source: DirectoryProbe
    work_dir: DirectoryProbe
    free_memory: int | None
    """In bytes; None if the host does not report it."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What an executor should check."""

    source: str
    work_dir: str
    """The work_dir, or its nearest parent that exists."""
    probe: str | None
    """The name and the content of the driver's file in the work_dir; None if nothing may be written there."""
    is_brief: bool = False
    """Only check packages and directories, which takes no time."""


def probe_here(request: ProbeRequest) -> ProbeResult:
    """Check the packages, directories and memory of this process."""
    broken: dict[str, str] = {}
    for name in NEEDED_BY_TASKS:
        try:
            if not request.is_brief or name not in RARELY_NEEDED or importlib.util.find_spec(name) is None:
                importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - an import can raise any error
            broken[name] = f"{type(error).__name__}: {error}"
    return ProbeResult(
        host=socket.gethostname(),
        time=time.time(),
        versions={} if request.is_brief else versions(),
        broken=broken,
        code="" if request.is_brief else code_digest(),
        source=_probe_directory(request.source, None),
        work_dir=_probe_directory(request.work_dir, request.probe),
        free_memory=free_memory(),
    )


def versions() -> dict[str, str]:
    """Return the versions of the packages in COMPARED."""
    found = {}
    for name in COMPARED:
        with suppress(importlib.metadata.PackageNotFoundError, ImportError):
            # pyspark of Spark's own distribution has no metadata
            module = importlib.import_module(name)
            found[name] = getattr(module, "__version__", None) or importlib.metadata.version(name)
    return found


def code_digest() -> str:
    """Return the digest of all our modules, which are in a zip or installed."""
    digest = hashlib.sha256()
    for package in OUR_PACKAGES:
        spec: Any = importlib.util.find_spec(package)  # not imported: what it imports may be missing
        _add_modules(digest, spec.loader.get_resource_reader(package).files(), package)
    return digest.hexdigest()


def _add_modules(digest: Any, folder: Traversable, path: str) -> None:  # noqa: ANN401 - hashlib names no type
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            digest.update(f"{path}/{entry.name}\n".encode() + entry.read_bytes())
        elif entry.is_dir() and entry.name != "__pycache__":
            _add_modules(digest, entry, f"{path}/{entry.name}")


def entries_of(folder: str) -> frozenset[str] | None:
    """Return the names in a directory without probe files; None if it cannot be read."""
    try:
        return frozenset(entry.name for entry in Path(folder).iterdir() if not entry.name.startswith(PROBE_PREFIX))
    except OSError:
        return None


def _probe_directory(folder: str, probe: str | None) -> DirectoryProbe:
    is_writable, sees_probe, shared = os.access(folder, os.W_OK), True, None
    if probe is not None and (sees_probe := Path(folder, probe).exists()):
        is_writable = _can_write(Path(folder, f"{probe}-{uuid.uuid4().hex}"))
        shared = _share(Path(folder, probe)) if is_writable else None
    return DirectoryProbe(entries_of(folder), is_writable, sees_probe, shared)


def _can_write(file: Path) -> bool:
    try:
        file.write_bytes(b"")
        file.unlink()
    except OSError:
        return False
    return True


def _share(probe: Path) -> SharedProbe:
    """Read the driver's file, and leave one beside it as a chunk task does: synced, renamed, with its directory synced.

    The driver removes it: its name begins with the driver's.
    """
    own = probe.with_name(f"{probe.name}-{uuid.uuid4().hex}")
    content = None
    with suppress(OSError):
        content = probe.read_text(encoding="ascii", errors="replace")
    try:
        write_durably(own, own.name.encode("ascii"))
    except OSError as error:
        return SharedProbe(content, None, is_linked=False, error=error.strerror or str(error))
    try:
        os.link(own, own.with_name(f"{own.name}.link"))
    except OSError:
        return SharedProbe(content, own.name, is_linked=False)
    return SharedProbe(content, own.name, is_linked=True)


def free_memory() -> int | None:
    """Return the bytes of memory that are free on the host, or in the container if that has less."""
    free = []
    with suppress(OSError, ValueError):
        of_host = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free.append(int(of_host["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):
        limit, used = (
            Path("/sys/fs/cgroup", name).read_text(encoding="ascii") for name in ("memory.max", "memory.current")
        )
        free.append(max(0, int(limit) - int(used)))  # without a limit it is "max", which is no number
    return min(free, default=None)
