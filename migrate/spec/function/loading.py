"""The user's function, imported by its name."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from formats import Function
from formats.function import describe_error
from migrate.errors import SpecError, did_you_mean
from migrate.model.packages import is_ours
from migrate.spec.function.names import name_taken


def load_function(name: str, search_path: tuple[str, ...]) -> Function:
    """Import `module:name`. Raises SpecError."""
    module_name, _, attribute = name.partition(":")
    if is_ours(module_name.partition(".")[0]):
        raise name_taken(module_name, search_path)
    try:
        module = _import(module_name, search_path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that is a script may end in `sys.exit()`
        raise SpecError(
            f"the function {name!r} cannot be imported: {describe_error(error)}",
            hint=_remedy(error, module_name),
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise _no_function(module, attribute)
    return function  # type: ignore[no-any-return]


def _import(module_name: str, search_path: tuple[str, ...]) -> ModuleType:
    """The module on the search path, even where another of that name exists elsewhere or was imported before."""
    folders = [str(Path(entry).parent) if entry.endswith(".py") else entry for entry in search_path]
    package = module_name.partition(".")[0]
    found = PathFinder.find_spec(package, folders)
    known = sys.modules.get(package)
    if found is not None and known is not None and known.__file__ != found.origin:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
    sys.path[:0] = folders
    try:
        return importlib.import_module(module_name)
    finally:
        del sys.path[: len(folders)]
        sys.path += [folder for folder in folders if folder not in sys.path]


def _remedy(error: BaseException, module_name: str) -> str:
    missing = error.name or "" if isinstance(error, ImportError) else ""
    if is_ours(package := missing.partition(".")[0]):
        return f"{package!r} is a package of Stateferry: if a module of yours is meant, rename it"
    if isinstance(error, ModuleNotFoundError):
        return "put the module beside the spec or name its file in [conversion] py_files"
    return f"fix the module {module_name}"


def _no_function(module: ModuleType, attribute: str) -> SpecError:
    names = [name for name, member in vars(module).items() if callable(member) and not name.startswith("_")]
    return SpecError(
        f"the module {module.__name__!r} ({module.__file__}) has no function {attribute!r}",
        hint=did_you_mean(attribute, names, "name one of its functions in [conversion] function"),
    )
