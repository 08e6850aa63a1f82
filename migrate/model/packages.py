"""Our packages: imported from one place, whatever else of their names Python's path holds.

Imports only the standard library: on an executor, other packages may be missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

VERSION = "0.1.0"
OUR_PACKAGES = ("formats", "migrate", "jobs")
NEEDED_BY_TASKS = ("rocksdict", "fastavro", "numpy", "pyarrow", "pydantic", "xxhash")
"""The packages that a task imports on an executor."""
RARELY_NEEDED = ("pyarrow",)
"""Those of them that tasks import only for the first dead letter, since the import is slow."""
PLACE = Path(__file__).absolute().parents[2]
"""The folder or archive that our packages are in."""
_claimed: set[str] = set()


class _OurPackages(MetaPathFinder):
    """Finds the claimed packages beside this one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(PLACE)]) if name in _claimed else None


def claim(*names: str) -> None:
    """Import these packages of ours from here from now on. Raises ImportError where another module has such a name."""
    for name in names:
        module = sys.modules.get(name)
        for place in getattr(module, "__path__", None) or [getattr(module, "__file__", None)]:
            if place is not None and Path(place).resolve() != (PLACE / name).resolve():
                raise ImportError(
                    f"{place} was imported as {name!r}, which is the name of a package of Stateferry: rename it",
                    name=name,
                    path=place,
                )
    if not _claimed:
        sys.meta_path.insert(0, _OurPackages())
    _claimed.update(names)


def is_ours(package: str, place: str | Path = "") -> bool:
    """Whether an import of a package that `place` has, or that is anywhere, gets one of ours."""
    return package in _claimed or (package in OUR_PACKAGES and Path(place) == PLACE)
