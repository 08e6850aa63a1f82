"""What `migrate` exports: every name can be imported, and every type that a public name leads to is one of them."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import subprocess
import sys
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import migrate
import migrate.errors

ROOT = Path(__file__).parents[1]
PACKAGES = ("migrate", "formats", "jobs")
NOT_CONSTRUCTED = ("DualReadStore", "ReadHandle", "RocksStore", "Records", "TypedRecords")
"""Classes whose objects come from a function, and whose `__init__` is no part of the interface."""


def _types(annotation: Any) -> Iterator[type]:  # noqa: ANN401 - any annotation
    """Our own classes in an annotation."""
    if isinstance(annotation, list):  # the parameters of a Callable
        parts: tuple[Any, ...] = tuple(annotation)
    else:
        parts = (typing.get_origin(annotation) or annotation, *typing.get_args(annotation))
        if isinstance(parts[0], type) and parts[0].__module__.partition(".")[0] in PACKAGES:
            yield parts[0]
        parts = parts[1:]
    for part in parts:
        yield from _types(part)


def _functions(name: str) -> Iterator[Callable[..., object]]:
    """The function of this name, or the public methods of the class."""
    public = getattr(migrate, name)
    if inspect.isfunction(public):
        yield public
    elif inspect.isclass(public) and not issubclass(public, BaseModel | Exception | enum.Enum):
        for attribute, member in inspect.getmembers_static(public):
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            is_public = not attribute.startswith("_") or (attribute == "__init__" and name not in NOT_CONSTRUCTED)
            if is_public and inspect.isfunction(function):
                yield function


def _fields(kind: type) -> Iterator[type]:
    if issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind):
        for field, annotation in typing.get_type_hints(kind).items():
            if not field.startswith("_") and field != "model_config":
                yield from _types(annotation)


def _used_by(name: str) -> set[type]:
    """The types of parameters and results, and those of their fields."""
    hints = (hint for function in _functions(name) for hint in typing.get_type_hints(function).values())
    used = {kind for hint in hints for kind in _types(hint)}
    return used | {inner for kind in used for inner in _fields(kind)}


def test_the_names_are_sorted_and_listed() -> None:
    assert migrate.__all__ == sorted(set(migrate.__all__))
    assert set(dir(migrate)) >= {*migrate.__all__, "__version__"}
    assert [name for name in dir(migrate) if name.startswith("_") and not name.startswith("__")] == []


@pytest.mark.parametrize("name", migrate.__all__)
def test_every_type_that_a_public_name_leads_to_is_exported(name: str) -> None:
    exported = [getattr(migrate, each) for each in migrate.__all__]
    assert {kind.__qualname__ for kind in _used_by(name) if kind not in exported} == set()


def test_every_error_is_exported() -> None:
    errors = [each for each in vars(migrate.errors).values() if inspect.isclass(each) and issubclass(each, Exception)]
    assert len(errors) > 20
    assert [error.__name__ for error in errors if error.__name__ not in migrate.__all__] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'migrate' has no attribute 'rnu'"):
        migrate.rnu  # noqa: B018


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert migrate.__version__ == project["project"]["version"]


def test_the_packages_are_marked_as_typed() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "py.typed").is_file()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["package-data"]["*"] == ["py.typed"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, migrate; dir(migrate); print([name for name in sys.modules if name.startswith('migrate.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
