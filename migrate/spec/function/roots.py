"""Where the modules of a user's function are: folders and archives, on this host or on an executor."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from migrate.model.packages import is_ours

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or an archive that modules are imported from."""

    place: str
    package: str = ""
    """The only package in it that is the user's; empty: all are."""

    def may_hold(self, name: str) -> bool:
        """Whether a module of this name would be the user's."""
        top = name.partition(".")[0]
        return not is_ours(top, self.place) and (not self.package or top == self.package)


Roots = tuple[Root, ...]


def roots_of(search_path: Iterable[str], modules: Iterable[str]) -> Roots:
    """The roots of the search path, and those of the function's modules that are not in it."""
    entries = [str(Path(entry).parent) if entry.endswith(".py") else entry for entry in search_path]
    roots = [Root(entry) for entry in dict.fromkeys(entries)]
    for module in modules:
        if find_module(tuple(roots), real_name(module)) is not None or (own := _root(module)) is None:
            continue
        roots.append(own)
        if not own.package:  # on an executor, where Spark puts all that it was given into one folder
            folder = own.place if Path(own.place).is_dir() else str(Path(own.place).parent)
            roots += [Root(folder), *(Root(f"{folder}/{Path(entry).name}") for entry in entries)]
    return tuple(dict.fromkeys(roots))


def _root(module: str) -> Root | None:
    """The root that a module's name starts from; None: it has no file, or is Python's own."""
    name = real_name(module)
    package = name.partition(".")[0]
    file = _file_of(module if module in sys.modules else package)
    if file is None or is_ours(package):
        return None
    depth = (name.count(".") if module in sys.modules else 0) + (Path(file).stem == "__init__")
    place = Path(file).absolute().parents[depth]
    if not _INSTALLED.isdisjoint(place.parts):
        return Root(str(place), package=package)
    return None if str(place) == _STANDARD_LIBRARY else Root(str(place))


def _file_of(module: str) -> str | None:
    """The file of a module that is imported already, or that is not part of a package."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    spec = importlib.util.find_spec(module)
    return None if spec is None or not spec.has_location else spec.origin


def real_name(module: str) -> str:
    """The name to import a module by, which for a script is not `__main__`."""
    loaded = sys.modules.get(module)
    if module != "__main__" or loaded is None:
        return module
    spec = getattr(loaded, "__spec__", None)
    return spec.name if spec is not None else Path(getattr(loaded, "__file__", None) or "").stem


def find_module(roots: Roots, name: str) -> ModuleSpec | None:
    """A module's spec, found without running any code; None: it is not the user's."""
    locations = [root.place for root in roots if root.may_hold(name)]
    found = None
    for part in name.split("."):  # by its last part: a namespace package asks for its parents, which are not imported
        found = PathFinder.find_spec(part, locations) if part and locations else None
        if found is None:
            return None
        locations = list(found.submodule_search_locations or ())
    return found


def import_path(name: str, file: str) -> str:
    """The path below a root where an import finds the module."""
    init = "/__init__" if Path(file).name.startswith("__init__.") else ""
    return f"{name.replace('.', '/')}{init}.{Path(file).name.partition('.')[2]}"


def path_of(roots: Roots, name: str, file: str) -> str | None:
    """A module's path below its root, the same on every host; None where its name does not lead to this file."""
    path = import_path(name, file)
    for root in roots:
        if root.may_hold(name) and file == f"{root.place}/{path}":
            return f"{Path(root.place).name}/{path}" if Path(root.place).is_file() else path
    return None
