"""The modules that a user's function is made of: found by their import statements, and those that were really loaded.

A module counts by its syntax tree, what is in an archive and any other file by its bytes.
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

_asked_for: dict[Hashable, set[str]] = defaultdict(set)
"""Modules whose import a function has begun in this process, by function."""


def module_digests(roots: Roots, names: Iterable[str]) -> dict[str, str]:
    """These modules and all that they import of the user's, by path."""
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
        found[path] = file_digest(*read, is_module=path.endswith(".py"))
        tree = parsed(read[0]) if path.endswith(".py") else None
        if tree is not None:
            waiting += imported_modules(tree, name if spec.submodule_search_locations else name.rpartition(".")[0])
    return found


def archive_digests(archive: Path) -> dict[str, str]:
    """Of every file in it; of a file that is no archive, or a damaged one, its own."""
    try:
        with zipfile.ZipFile(archive) as opened:
            files = [name for name in opened.namelist() if not name.endswith("/") and "__pycache__/" not in name]
            return {f"{archive.name}/{name}": bytes_digest(opened.read(name)) for name in files}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return {archive.name: bytes_digest(archive.read_bytes())}


def file_digest(content: bytes, is_archived: bool, *, is_module: bool) -> str:
    """Of a module that stands for itself its syntax tree's, if it has one; else the bytes'."""
    return source_digest(content) if is_module and not is_archived else bytes_digest(content)


@lru_cache(maxsize=256)
def source_digest(source: bytes) -> str:
    """Each chunk asks for it."""
    tree = parsed(source)
    return bytes_digest(source) if tree is None else tree_digest(tree)


def bytes_digest(content: bytes) -> str:
    """As they are."""
    return hashlib.sha256(content).hexdigest()


def _read(file: str) -> tuple[bytes, bool] | None:
    """The content, and whether it is in an archive; None: it is gone."""
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


class _Watch(MetaPathFinder):
    """Finds nothing, and remembers what this thread asks for."""

    def __init__(self, asked_for: set[str]) -> None:
        self._asked_for = asked_for
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Whoever comes next finds it."""
        if threading.get_ident() == self._thread:
            self._asked_for.add(fullname)


@contextmanager
def watching_imports(function: Hashable) -> Iterator[None]:
    """What is imported meanwhile, by this thread, counts as this function's.

    No bytecode is written: by seconds and size alone it would be taken for that of a module changed just then.
    """
    watch, before = _Watch(_asked_for[function]), sys.dont_write_bytecode
    sys.meta_path.insert(0, watch)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.meta_path.remove(watch)


def loaded_digests(function: Hashable, roots: Roots, expected: Iterable[str]) -> dict[str, str]:
    """The user's modules that this process has, as they are on disk now, by path.

    A module that is `expected` counts wherever it was found: Spark lays copies into a folder of its own. What else the
    process had before the function asked for anything is none of the function's.
    """
    found = {}
    wanted, asked_for = set(expected), _asked_for[function]
    names = {_name(path) for each in wanted for path in (each, each.partition("/")[2])}  # with and without an archive
    for name in (names | asked_for) & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None)
        if not isinstance(file, str):
            continue
        path = path_of(roots, name, file) or _expected_path(name, file, wanted)
        if path is not None and (path in wanted or name in asked_for):
            read = _read(file)
            found[path] = "" if read is None else file_digest(*read, is_module=path.endswith(".py"))
    return found


def _expected_path(name: str, file: str, wanted: set[str]) -> str | None:
    archive, path = _archive_of(file), import_path(name, file)
    known = path if archive is None else f"{archive.name}/{path}"
    return known if known in wanted and name not in sys.stdlib_module_names else None


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def forget_modules(search_path: Roots, roots: Roots, code: Iterable[str]) -> None:
    """What is to be imported anew: what an earlier function brought, and namesakes of this one's from elsewhere.

    `roots`: those of the search path, and where this function's own modules lie.
    """
    brought = set().union(*_asked_for.values())
    own = {_name(path) for path in code if path.endswith(".py")}
    for name in ((brought | own) - sys.stdlib_module_names) & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None) or ""
        is_brought = name in brought and path_of(search_path, name, file) is not None
        if is_brought or (name in own and path_of(roots, name, file) is None):
            del sys.modules[name]
