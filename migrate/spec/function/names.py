"""Files of the user's whose names are those of other modules: ours, those that tasks need, Python's own."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.errors import SpecError
from migrate.model.packages import NEEDED_BY_TASKS, OUR_PACKAGES, PLACE, is_ours

if TYPE_CHECKING:
    from migrate.spec.conversion_ref import ConversionRef

_INSTALLED = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


def name_warnings(ref: ConversionRef) -> list[str]:
    """A sentence for each module of the user's that an import in the function does not find, or may not find."""
    imported = {name for name, _ in _imported(ref)}
    ours = [
        f"{file} is not what the function imports{'' if is_ours(name) else ' on Spark'}: `import {name}` gets the "
        "package of Stateferry; rename the file if the function needs it"
        for name in OUR_PACKAGES
        if is_ours(name) or name in imported
        for file in (*_beside(name, ref.search_path), *_archived(name, ref))
    ]
    return ours + [
        f"{file} has the name of a module that is installed with Python: which of them `import {name}` gets can depend "
        "on what was imported before; rename the file if the function needs it, move it away if not"
        for name, file in _imported(ref)
        if name in sys.stdlib_module_names or _is_installed(name, ref)
    ]


def check_names_on_executors(ref: ConversionRef) -> None:
    """Raises SpecError where a file, on an executor, would take the place of a package that tasks need."""
    for name, file in _imported(ref):
        if name in NEEDED_BY_TASKS:
            raise SpecError(
                f"{file} would take the place of the package {name}, which Stateferry needs on Spark's executors",
                hint="rename that file, and the import of it in the function",
            )


def name_taken(module: str, search_path: Iterable[str]) -> SpecError:
    """The error for a function whose own module has the name of a package of ours."""
    package = module.partition(".")[0]
    file = next(_beside(package, search_path), "that module")
    return SpecError(
        f"[conversion] function: {package!r} is the name of a package of Stateferry",
        hint=f"rename {file}, and name it so in [conversion] function",
    )


def _beside(name: str, search_path: Iterable[str]) -> Iterator[Path]:
    """The modules of this name beside the spec and py_files, which are not ours."""
    for place in _folders(search_path):
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
        file = next((place / top for place in _folders(ref.search_path) if (place / top).exists()), None)
        if file is not None and (file.is_dir() or file.suffix == ".py"):
            yield file.stem, file


def _folders(search_path: Iterable[str]) -> list[Path]:
    entries = (Path(entry).parent if entry.endswith(".py") else Path(entry) for entry in search_path)
    return [entry for entry in dict.fromkeys(entries) if entry.is_dir()]


def _is_installed(name: str, ref: ConversionRef) -> bool:
    """Whether another package has the name; the function's own module is the user's wherever it is."""
    is_own = any(module.partition(".")[0] == name for module in ref.modules)
    return not is_own and PathFinder.find_spec(name, _INSTALLED) is not None
