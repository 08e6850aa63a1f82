"""The user's function: found and imported by its name, and sent to executors."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from formats.function import describe_error
from migrate.errors import SpecError, did_you_mean
from migrate.model.packages import NEEDED_BY_TASKS, OUR_PACKAGES, PLACE, is_ours
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import folders_of, forget_modules, tracking_imports

_INSTALLED = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


def load_function(
    ref: ConversionRef,
    setting: str = "[conversion] function",
    place: str = "put the module beside the spec or name its file in [conversion] py_files",
) -> Callable[..., Any]:
    """The function of a ref, imported where it is given by name. Raises SpecError.

    `setting`: where the user names it. `place`: what helps where its module is not found.
    """
    if not isinstance(ref.function, str):
        assert ref.function is not None
        return ref.function
    module_name, _, attribute = ref.function.partition(":")
    if is_ours(package := module_name.partition(".")[0]):
        file = next(_beside(package, ref), "that module")
        raise SpecError(
            f"{setting}: {package!r} is the name of a package of Stateferry",
            hint=f"rename {file}, and name it so in {setting}",
        )
    try:
        module = _import(module_name, ref)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that is a script may end in `sys.exit()`
        raise SpecError(
            f"the function {ref.function!r} cannot be imported: {describe_error(error)}",
            hint=_remedy(error, module_name, place),
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        names = [name for name, member in vars(module).items() if callable(member) and not name.startswith("_")]
        raise SpecError(
            f"the module {module.__name__!r} ({module.__file__}) has no function {attribute!r}",
            hint=did_you_mean(attribute, names, f"name one of its functions in {setting}"),
        )
    return function  # type: ignore[no-any-return]


def _import(module_name: str, ref: ConversionRef) -> ModuleType:
    """The module on the search path, even where another of that name exists elsewhere or was imported before."""
    forget_modules(ref)
    folders = folders_of(ref.search_path)
    sys.path[:0] = folders
    try:
        with tracking_imports(ref):
            return importlib.import_module(module_name)
    finally:
        del sys.path[: len(folders)]
        sys.path += [folder for folder in folders if folder not in sys.path]


def _remedy(error: BaseException, module_name: str, place: str) -> str:
    missing = error.name or "" if isinstance(error, ImportError) else ""
    if is_ours(package := missing.partition(".")[0]):
        return f"{package!r} is a package of Stateferry: if a module of yours is meant, rename it"
    if isinstance(error, ModuleNotFoundError):
        return place
    return f"fix the module {module_name}"


def files_for_executors(ref: ConversionRef) -> list[Path]:
    """The files that executors need: py_files, and those beside the spec. Raises SpecError for what cannot be sent."""
    if not isinstance(ref.function, str):
        return []
    for name, file in _imported(ref):
        if name in NEEDED_BY_TASKS:
            raise SpecError(
                f"{file} would take the place of the package {name}, which Stateferry needs on Spark's executors",
                hint="rename that file, and the import of it in the function",
            )
    given, folder = [Path(entry) for entry in ref.search_path[:-1]], Path(ref.search_path[-1])
    package = ref.modules[0].partition(".")[0]
    if (folder / package).is_dir():
        raise SpecError(
            f"the package {package!r} beside the spec does not reach Spark's executors",
            hint="zip it, and name the zip in [conversion] py_files",
        )
    beside = [folder / path for path, _ in ref.code if "/" not in path]
    return [*given, *(file for file in beside if file.is_file() and file not in given)]


def name_warnings(ref: ConversionRef) -> list[str]:
    """A sentence for each module of the user's that an import in the function does not find, or may not find."""
    imported = {name for name, _ in _imported(ref)}
    ours = [
        f"{file} is not what the function imports{'' if is_ours(name) else ' on Spark'}: `import {name}` gets the "
        "package of Stateferry; rename the file if the function needs it"
        for name in OUR_PACKAGES
        if is_ours(name) or name in imported
        for file in (*_beside(name, ref), *_archived(name, ref))
    ]
    return ours + [
        f"{file} has the name of a module that is installed with Python: which of them `import {name}` gets can depend "
        "on what was imported before; rename the file if the function needs it, move it away if not"
        for name, file in _imported(ref)
        if name in sys.stdlib_module_names or _is_installed(name, ref)
    ]


def _folders(ref: ConversionRef) -> list[Path]:
    return [folder for entry in folders_of(ref.search_path) if (folder := Path(entry)).is_dir()]


def _beside(name: str, ref: ConversionRef) -> Iterator[Path]:
    """The modules of this name beside the spec and py_files, which are not ours."""
    for place in _folders(ref):
        if place.resolve() == PLACE.resolve():
            continue
        if (place / f"{name}.py").is_file():
            yield place / f"{name}.py"
        if any((place / name).glob("*.py")):
            yield place / name


def _archived(name: str, ref: ConversionRef) -> Iterator[str]:
    """The archives that have a module of this name at the top."""
    for archive in ref.search_path:
        start = f"{Path(archive).name}/{name}"
        if any(path.startswith((f"{start}.py", f"{start}/")) for path, _ in ref.code):
            yield f"{name} in {archive}"


def _imported(ref: ConversionRef) -> Iterator[tuple[str, Path]]:
    """(name, file) of each module beside the spec or a py_file, and each package there, that the function imports."""
    for top in dict.fromkeys(path.partition("/")[0] for path, _ in ref.code if path.endswith(".py")):
        file = next((place / top for place in _folders(ref) if (place / top).exists()), None)
        if file is not None and (file.is_dir() or file.suffix == ".py"):
            yield file.stem, file


def _is_installed(name: str, ref: ConversionRef) -> bool:
    """Whether another package has the name; the function's own module is the user's wherever it is."""
    is_own = any(module.partition(".")[0] == name for module in ref.modules)
    return not is_own and PathFinder.find_spec(name, _INSTALLED) is not None
