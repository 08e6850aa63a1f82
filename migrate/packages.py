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

OUR_PACKAGES = ("formats", "migrate", "jobs")
NEEDED_BY_TASKS = ("rocksdict", "fastavro", "numpy", "pyarrow", "pydantic", "xxhash")
"""The packages that a task imports on an executor."""
PLACE = Path(__file__).absolute().parents[1]
"""The folder or archive that our packages are in."""


class _OurPackages(MetaPathFinder):
    """Finds our packages beside this one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a package of ours; None leaves the name to the other finders."""
        return PathFinder.find_spec(name, [str(PLACE)]) if name in OUR_PACKAGES else None


def import_from_here() -> None:
    """Import our packages from here from now on. Raises ImportError where another module has the name of one."""
    for name in OUR_PACKAGES:
        for place in _places(sys.modules.get(name)):
            if place.resolve() != (PLACE / name).resolve():
                raise ImportError(
                    f"{place} was imported as {name!r}, which is the name of a package of Stateferry: rename it",
                    name=name,
                    path=str(place),
                )
    sys.meta_path.insert(0, _OurPackages())


def _places(module: ModuleType | None) -> list[Path]:
    """The folders of a loaded package, or the file of another module."""
    found = getattr(module, "__path__", None) or [getattr(module, "__file__", None)]
    return [Path(place) for place in found if place is not None]
