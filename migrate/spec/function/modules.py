"""The modules that a user's function is made of: found by their import statements, and those that were loaded.

A module is compared by its syntax tree; members of archives and other files by their bytes.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.abc import MetaPathFinder
from pathlib import Path

from migrate.spec.function.roots import Roots, find_module, import_path, path_of
from migrate.spec.function.syntax_tree import imported_modules, parsed, tree_digest

_imported: dict[Hashable, set[str]] = defaultdict(set)
"""Names of the modules that each function started to import in this process."""


def module_digests(roots: Roots, names: Iterable[str]) -> dict[str, str]:
    """Digests of these modules, and of all of the user's modules that they import, by path."""
    importlib.invalidate_caches()
    found: dict[str, str] = {}
    seen: set[str] = {""}
    waiting = list(names)
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        spec = find_module(roots, name)
        if spec is None or spec.origin is None or not spec.has_location:
            continue
        path, read = path_of(roots, name, spec.origin), _read(spec.origin)
        if path is None or read is None:
            continue
        found[path] = _digest(read, path)
        tree = parsed(read[0]) if path.endswith(".py") else None
        if tree is not None:
            waiting += imported_modules(tree, name if spec.submodule_search_locations else name.rpartition(".")[0])
    return found


def archive_digests(archive: Path) -> dict[str, str]:
    """Digests of the members of an archive, by path; of the file itself where it is damaged or not an archive."""
    try:
        with zipfile.ZipFile(archive) as opened:
            files = [name for name in opened.namelist() if not name.endswith("/") and "__pycache__/" not in name]
            return {f"{archive.name}/{name}": bytes_digest(opened.read(name)) for name in files}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return {archive.name: bytes_digest(archive.read_bytes())}


@lru_cache(maxsize=256)
def file_digest(content: bytes, *, is_source: bool) -> str:
    """The digest of Python source's syntax tree, of anything else's bytes; cached, for every chunk needs it."""
    tree = parsed(content) if is_source else None
    return bytes_digest(content) if tree is None else tree_digest(tree)


def bytes_digest(content: bytes) -> str:
    """SHA-256 of the bytes."""
    return hashlib.sha256(content).hexdigest()


def _digest(read: tuple[bytes, bool], path: str) -> str:
    content, is_archived = read
    return file_digest(content, is_source=path.endswith(".py") and not is_archived)


def _read(file: str) -> tuple[bytes, bool] | None:
    """(content, whether it is in an archive); None: the file is gone."""
    try:
        if (archive := _archive_of(file)) is None:
            return Path(file).read_bytes(), False
        status = archive.stat()
        return _member(archive, file[len(str(archive)) + 1 :], status.st_mtime_ns, status.st_size), True
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
        return None


def _archive_of(file: str) -> Path | None:
    return None if Path(file).exists() else next((path for path in Path(file).parents if path.is_file()), None)


@lru_cache(maxsize=256)
def _member(archive: Path, name: str, mtime_ns: int, size: int) -> bytes:
    with zipfile.ZipFile(archive) as opened:
        return opened.read(name)


class _ImportRecorder(MetaPathFinder):
    """Finds nothing, and records the names that this thread imports."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Record the name, and leave it to the other finders."""
        if threading.get_ident() == self._thread:
            self._names.add(fullname)


@contextmanager
def recording_imports(function: Hashable) -> Iterator[None]:
    """What this thread imports in the context counts as part of the function.

    No bytecode is written: Python checks it by seconds and size alone, and would use it after a quick change.
    """
    recorder, before = _ImportRecorder(_imported[function]), sys.dont_write_bytecode
    sys.meta_path.insert(0, recorder)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.meta_path.remove(recorder)


def loaded_digests(function: Hashable, roots: Roots, expected: Iterable[str]) -> dict[str, str]:
    """Digests of the user's modules that this process has loaded, as they are on disk now, by path.

    An `expected` module counts wherever it was found: Spark copies files into a folder of its own. Other modules count
    only if the function imported them.
    """
    found = {}
    wanted, imported = set(expected), _imported[function]
    names = {_name(path) for each in wanted for path in (each, each.partition("/")[2])}  # with and without an archive
    for name in (names | imported) & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None)
        if not isinstance(file, str):
            continue
        path = path_of(roots, name, file) or _expected_path(name, file, wanted)
        if path is not None and (path in wanted or name in imported):
            read = _read(file)
            found[path] = "" if read is None else _digest(read, path)
    return found


def _expected_path(name: str, file: str, wanted: set[str]) -> str | None:
    archive, path = _archive_of(file), import_path(name, file)
    known = path if archive is None else f"{archive.name}/{path}"
    return known if known in wanted and name not in sys.stdlib_module_names else None


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def forget_modules(search_path: Roots, roots: Roots, code: Iterable[str]) -> None:
    """Unload modules, to be imported again: those of earlier functions, and others with the names of this function's.

    `roots`: those of the search path, and where this function's own modules are.
    """
    brought = set().union(*_imported.values())
    own = {_name(path) for path in code if path.endswith(".py")}
    for name in ((brought | own) - sys.stdlib_module_names) & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None) or ""
        is_brought = name in brought and path_of(search_path, name, file) is not None
        if is_brought or (name in own and path_of(roots, name, file) is None):
            del sys.modules[name]
