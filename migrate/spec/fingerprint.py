"""The fingerprint of a user's function: digests of its code, part of the identity, checked wherever it runs.

A module is compared by its syntax tree, so that layout and comments do not count; members of archives and other files
by their bytes.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import threading
import uuid
import warnings
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path, PurePosixPath
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from migrate.errors import RefusedError, SpecError
from migrate.model.packages import is_ours
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.files import content_digest

OWN_PROCESS = "process "
"""What the digest of a function starts with that no other process recognizes."""
_PROCESS = uuid.uuid4().hex
_unrecognizable: dict[int, object] = {}
"""Such functions by their ids, which remain theirs as long as they are kept."""
_imported: dict[Hashable, set[str]] = defaultdict(set)
"""Names of the modules that each function started to import in this process."""
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_INSTALLED = {"site-packages", "dist-packages"}
_SPELLING = {"kind", "type_comment", "type_ignores"}
"""Fields of syntax trees for how something was written, not for what it does."""
_PARSING = threading.Lock()
"""Neither the filters of warnings nor the parser of Python 3.11 work in several threads."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def with_fingerprint(ref: ConversionRef) -> ConversionRef:
    """The ref with the modules and digests of its function as they are now. Raises SpecError for one without source."""
    code: dict[str, str] = {}
    if isinstance(ref.function, str):
        modules = {ref.function.partition(":")[0]}
    else:
        code[""], modules = _object_digest(ref.function)
    given = [Path(entry) for entry in ref.search_path[:-1]]
    for archive in given:
        if archive.suffix != ".py":
            code |= _archive_digests(archive)
    files = [PurePosixPath(name) for name in ref.files]
    listed = [".".join(path.with_suffix("").parts) for path in files if path.suffix == ".py"]
    scripts = [path.stem for path in given if path.suffix == ".py"]
    code |= _module_digests(roots_of(ref.search_path, sorted(modules)), [*sorted(modules), *scripts, *listed])
    for name in ref.files:
        content = Path(ref.search_path[-1], name).read_bytes()
        code[name] = _source_digest(content) if name.endswith(".py") else _bytes_digest(content)
    return replace(ref, modules=tuple(sorted(modules)), code=tuple(sorted(code.items())))


def checked_code(ref: ConversionRef) -> dict[str, str]:
    """Digests of what this process has loaded of the function, and of its data. Raises RefusedError for a change."""
    if ref.function is None:
        return {}
    expected, roots = dict(ref.code), roots_of(ref.search_path, ref.modules)
    found = _loaded_digests(_key(ref), roots, expected) | dict(_data_digests(ref, roots))
    for path, digest in found.items():
        if path not in expected:
            raise RefusedError(
                f"the function loaded the module {path}, which no import statement names: a change of it would go "
                "unnoticed",
                hint=f'import it by a statement, or list it in the spec: [conversion] files = ["{path}"]',
            )
        if expected[path] != digest:
            raise RefusedError(
                f"{path}, which the function is made of, changed during the run",
                hint="restore it and run the same command again: finished chunks are kept; or stateferry replay SPEC "
                "goes on with the changed one, and verifies everything in full",
            )
    return found


class _ImportRecorder(MetaPathFinder):
    """Finds nothing, and records the names that this thread imports."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if threading.get_ident() == self._thread:
            self._names.add(fullname)


@contextmanager
def tracking_imports(ref: ConversionRef) -> Iterator[None]:
    """A context to load or call the function in: what this thread imports there counts as part of it.

    No bytecode is written: Python checks it by seconds and size alone, and would use it after a quick change.
    """
    if ref.function is None:
        yield
        return
    recorder, before = _ImportRecorder(_imported[_key(ref)]), sys.dont_write_bytecode
    sys.meta_path.insert(0, recorder)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.meta_path.remove(recorder)


def forget_modules(ref: ConversionRef) -> None:
    """Unload modules, to be imported again: those of earlier functions, and others with the names of this one's."""
    brought = set().union(*_imported.values())
    own = {_name(path) for path, _ in ref.code if path.endswith(".py")}
    search_path, roots = roots_of(ref.search_path, ()), roots_of(ref.search_path, ref.modules)
    for name in ((brought | own) - sys.stdlib_module_names) & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None) or ""
        if (name in brought and _is_below(search_path, name, file)) or (
            name in own and not _is_below(roots, name, file)
        ):
            del sys.modules[name]


def _key(ref: ConversionRef) -> Hashable:
    return ref.function, ref.search_path


# Where modules are: folders and archives, on this host or on an executor.


class Root(NamedTuple):
    """A folder or an archive that modules of the user's are imported from."""

    place: str
    package: str = ""
    """The only package in it that is the user's; empty: all are."""

    def may_hold(self, name: str) -> bool:
        """Whether a module of this name would be the user's."""
        top = name.partition(".")[0]
        return not is_ours(top, self.place) and (not self.package or top == self.package)


Roots = tuple[Root, ...]


def folders_of(search_path: Iterable[str]) -> list[str]:
    """The folders and archives of the search path, in which a .py file stands for its folder."""
    return [*dict.fromkeys(str(Path(entry).parent) if entry.endswith(".py") else entry for entry in search_path)]


def roots_of(search_path: Iterable[str], modules: Iterable[str]) -> Roots:
    """The roots of the search path, and those of the function's modules that are not in it."""
    entries = folders_of(search_path)
    roots = [Root(entry) for entry in entries]
    for name in map(_real_name, modules):
        if _find(tuple(roots), name) is not None or (own := _root_of(name.partition(".")[0])) is None:
            continue
        roots.append(own)
        if not own.package:  # on an executor, where Spark puts all that it was given into one folder
            folder = own.place if Path(own.place).is_dir() else str(Path(own.place).parent)
            roots += [Root(folder), *(Root(f"{folder}/{Path(entry).name}") for entry in entries)]
    return tuple(dict.fromkeys(roots))


def _root_of(package: str) -> Root | None:
    """The root of a package or module on Python's path; None: it has no file, or is Python's own, or ours."""
    spec = None if not package or is_ours(package) else importlib.util.find_spec(package)
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    place = Path(spec.origin).absolute().parents[1 if spec.submodule_search_locations else 0]
    if not _INSTALLED.isdisjoint(place.parts):
        return Root(str(place), package)
    return None if str(place) == _STANDARD_LIBRARY else Root(str(place))


def _real_name(module: str) -> str:
    """The name to import a module by, which for a script is not `__main__`."""
    loaded = sys.modules.get(module)
    if module != "__main__" or loaded is None:
        return module
    return loaded.__spec__.name if loaded.__spec__ is not None else Path(getattr(loaded, "__file__", None) or "").stem


def _find(roots: Roots, name: str) -> ModuleSpec | None:
    """A module's spec, found without running any code; None: it is not the user's."""
    locations = [root.place for root in roots if root.may_hold(name)]
    found = None
    for part in name.split("."):  # by its last part: a namespace package asks for its parents, which are not imported
        found = PathFinder.find_spec(part, locations) if part and locations else None
        if found is None:
            return None
        locations = list(found.submodule_search_locations or ())
    return found


def _path_below(name: str, file: str) -> str:
    """The path below a root where an import finds the module."""
    init = "/__init__" if Path(file).name.startswith("__init__.") else ""
    return f"{name.replace('.', '/')}{init}.{Path(file).name.partition('.')[2]}"


def _is_below(roots: Roots, name: str, file: str) -> bool:
    """Whether a module is the user's: its name leads from a root to this file."""
    place = file.removesuffix(f"/{_path_below(name, file)}")
    return any(root.place == place and root.may_hold(name) for root in roots)


def _path(name: str, file: str) -> str:
    """What a module is called in fingerprints, the same on every host; in an archive, behind the archive's name."""
    archive = _archive_of(file)
    return "/".join([*([] if archive is None else [archive.name]), _path_below(name, file)])


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _archive_of(file: str) -> Path | None:
    return None if Path(file).exists() else next((path for path in Path(file).parents if path.is_file()), None)


# Digests of modules and files.


def _module_digests(roots: Roots, names: Iterable[str]) -> dict[str, str]:
    """Digests of these modules, and of all of the user's modules that they import, by path."""
    importlib.invalidate_caches()
    found: dict[str, str] = {}
    seen, waiting = {""}, [_real_name(name) for name in names]
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        spec = _find(roots, name)
        if spec is None or (file := spec.origin) is None or not spec.has_location:
            continue
        digest, content = _read(file)
        if not digest or not _is_below(roots, name, file):
            continue
        if file.endswith(".pyc") and _archive_of(file) is None:
            raise SpecError(
                f"the module {name} of the function is {file}, which has no source to recognize it by",
                hint="put the .py file there that it was compiled from",
            )
        found[_path(name, file)] = digest
        if file.endswith(".py") and (tree := parsed(content)) is not None:
            waiting += _modules_in(tree, name if spec.submodule_search_locations else name.rpartition(".")[0])
    return found


def _modules_in(tree: ast.Module, package: str) -> Iterator[str]:
    """The modules that import statements anywhere in the tree may load; `package`: the package that it belongs to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            above = parents[: max(0, len(parents) - node.level + 1)] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _loaded_digests(function: Hashable, roots: Roots, expected: dict[str, str]) -> dict[str, str]:
    """Digests of the user's modules that this process has loaded, as they are on disk now, by path.

    An expected module counts wherever it was found: Spark copies files into a folder of its own. Other modules count
    only if the function imported them.
    """
    found = {}
    imported = _imported[function]
    names = {_name(path) for each in expected for path in (each, each.partition("/")[2])}  # in an archive or not
    for name in (names | imported) & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None)
        if not isinstance(file, str):
            continue
        path, is_below = _path(name, file), _is_below(roots, name, file)
        is_expected = path in expected and (is_below or name not in sys.stdlib_module_names)
        if is_expected or (is_below and name in imported):
            found[path], _ = _read(file)
    return found


def _data_digests(ref: ConversionRef, roots: Roots) -> Iterator[tuple[str, str]]:
    """Digests of the listed data files that this host has; listed modules are checked once they are loaded."""
    for name in ref.files:
        places = [Path(ref.search_path[-1], name), *(Path(root.place, name) for root in roots)]
        file = next((place for place in places if place.is_file()), None)
        if file is not None and not name.endswith(".py"):
            status = file.stat()
            yield name, _data_digest(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _data_digest(file: Path, mtime_ns: int, size: int) -> str:
    return content_digest(file)


def _archive_digests(archive: Path) -> dict[str, str]:
    """Digests of the members of an archive, by path; of the file itself where it is damaged or not an archive."""
    try:
        with zipfile.ZipFile(archive) as opened:
            files = [name for name in opened.namelist() if not name.endswith("/") and "__pycache__/" not in name]
            return {f"{archive.name}/{name}": _bytes_digest(opened.read(name)) for name in files}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return {archive.name: _bytes_digest(archive.read_bytes())}


def _read(file: str) -> tuple[str, bytes]:
    """(digest, content) of a module's file; no digest where it is gone."""
    try:
        if (archive := _archive_of(file)) is None:
            content = Path(file).read_bytes()
            return _source_digest(content) if file.endswith(".py") else _bytes_digest(content), content
        status = archive.stat()
        content = _member(archive, file[len(str(archive)) + 1 :], status.st_mtime_ns, status.st_size)
        return _bytes_digest(content), content
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
        return "", b""


@lru_cache(maxsize=256)
def _member(archive: Path, name: str, mtime_ns: int, size: int) -> bytes:
    with zipfile.ZipFile(archive) as opened:
        return opened.read(name)


@lru_cache(maxsize=256)  # every chunk needs it
def _source_digest(content: bytes) -> str:
    tree = parsed(content)
    return _bytes_digest(content) if tree is None else tree_digest(tree)


def _bytes_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def parsed(source: bytes) -> ast.Module | None:
    """The syntax tree; None: the source is not Python, or nested too deeply for its parser."""
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing the module warns too
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree_digest(tree: ast.AST) -> str:
    """The digest of a tree, the same in every version of Python; found without recursion: a long sum is a deep tree."""
    digest, end = hashlib.sha256(), object()
    waiting: list[Iterator[object]] = [iter([tree])]
    while waiting:
        item = next(waiting[-1], end)
        if item is end:
            waiting.pop()
            digest.update(b")")
        elif isinstance(item, ast.AST | list):
            digest.update(f"({type(item).__name__}".encode())
            waiting.append(iter(item) if isinstance(item, list) else _fields(item))
        else:
            digest.update(_constant(item))
    return digest.hexdigest()


def _fields(node: ast.AST) -> Iterator[object]:
    """Names and values, but for those without one: a field that a later Python adds changes nothing."""
    for name in sorted({*node._fields} - _SPELLING):
        value = getattr(node, name, None)
        if isinstance(node, ast.JoinedStr):  # 3.12 puts empty texts between
            value = [each for each in node.values if not isinstance(each, ast.Constant) or each.value]
        if value not in (None, []):
            yield from (name, value)


def _constant(value: object) -> bytes:
    """A constant or a name, unambiguous by its type and length. `ascii` refuses long numbers."""
    text = b"%x" % value if isinstance(value, int) else ascii(value).encode()
    return f"<{type(value).__name__} {len(text)}:".encode() + text + b">"


# A function that is given as an object.


def _object_digest(function: object) -> tuple[str, set[str]]:
    """(its digest, its modules): equal in every process if a file has its code, and plain values are all it carries."""
    modules: set[str] = set()
    try:
        return _bytes_digest(_described(function, modules)), modules
    except (ValueError, OSError, TypeError, SyntaxError, RecursionError):
        _unrecognizable[id(function)] = function
        return f"{OWN_PROCESS}{_PROCESS} {id(function)}", modules


def _described(value: object, modules: set[str]) -> bytes:
    """A function, or what it carries. Raises ValueError for what is neither plain nor of functions and plain values."""
    kind = type(value)
    if kind in _PLAIN:
        return _constant(value)
    if kind not in _PARTS:
        raise ValueError(kind)
    found = [_described(each, modules) for each in _PARTS[kind](value, modules)]
    order = sorted(found) if kind in (set, frozenset) else found  # each process has its own
    return b"(%s %s)" % (kind.__name__.encode(), b"".join(order))


def _parts_of_function(function: FunctionType, modules: set[str]) -> Iterator[object]:
    """The tree of its module, which one it is there, and what it carries. Raises ValueError, OSError, TypeError."""
    name = function.__globals__.get("__name__", "")
    source = inspect.getsource(sys.modules[name]) if name in sys.modules else ""
    codes = [compile(source, "", "exec", dont_inherit=True)]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    number = codes.index(function.__code__)
    modules.add(name)
    yield from (_source_digest(source.encode()), number)
    yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
    yield from (cell.cell_contents for cell in function.__closure__ or () if cell.cell_contents is not function)


_PARTS: dict[type, Callable[[Any, set[str]], Iterable[object]]] = {
    FunctionType: _parts_of_function,
    partial: lambda made, _: (made.func, made.args, made.keywords),
    dict: lambda pairs, _: pairs.items(),
    **dict.fromkeys((list, tuple, set, frozenset), lambda values, _: values),
}
