"""What `migrate` exports: every name can be imported, and every type that a public name leads to is one of them."""

import dataclasses
import enum
import inspect
import operator
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
from tests.cli.signatures import NOT_CONSTRUCTED, arguments_and_errors
from tests.support import RAW

ROOT = Path(__file__).parents[1]
PACKAGES = ("migrate", "formats", "jobs")
OF_VIEWS = {"Format", "Partition", "StoreType"}
"""What views are made of: who queries a store never names them."""


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
    return used | {inner for kind in used if kind.__qualname__ not in OF_VIEWS for inner in _fields(kind)}


def test_the_names_are_sorted_and_listed() -> None:
    assert migrate.__all__ == sorted(set(migrate.__all__))
    assert set(dir(migrate)) >= {*migrate.__all__, "__version__"}
    assert [name for name in dir(migrate) if name.startswith("_") and not name.startswith("__")] == []


@pytest.mark.parametrize("name", migrate.__all__)
def test_every_type_that_a_public_name_leads_to_is_exported(name: str) -> None:
    exported = [getattr(migrate, each) for each in migrate.__all__]
    assert {kind.__qualname__ for kind in _used_by(name) if kind not in exported} <= OF_VIEWS


def test_every_error_is_exported() -> None:
    errors = [each for each in vars(migrate.errors).values() if inspect.isclass(each) and issubclass(each, Exception)]
    assert len(errors) > 20
    assert [error.__name__ for error in errors if error.__name__ not in migrate.__all__] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'migrate' has no attribute 'rnu'"):
        getattr(migrate, "rnu")  # noqa: B009 - type checkers know that there is none


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
    assert done.stdout.strip() == "['migrate.model', 'migrate.model.packages']"


def test_a_conversion_of_bytes_loads_no_avro() -> None:
    """Every worker starts with one."""
    script = (
        "import sys\n"
        "from migrate.spec.conversion import load_conversion\n"
        "from migrate.spec.conversion_ref import ConversionRef\n"
        f"assert load_conversion(ConversionRef({RAW!r}, {RAW!r})).program is not None\n"
        "print([name for name in ('fastavro', 'formats.avro.schema') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WITH_A_FORMAT: dict[str, Callable[[Path, str], object]] = {
    "DualReadStore.open, source": lambda path, name: migrate.DualReadStore.open(path, source=name, target=RAW),
    "DualReadStore.open, target": lambda path, name: migrate.DualReadStore.open(path, source=RAW, target=name),
    "Stores.open": lambda path, name: migrate.Stores().open("orders", path, source=name, target=RAW),
    "open_store": lambda path, name: migrate.open_store(path, format=name),
    "open_store, create": lambda path, name: migrate.open_store(path, format=name, create=True),
    "migrate_store, source": lambda path, name: migrate.migrate_store(path, path / "new", source=name, target=RAW),
    "migrate_store, target": lambda path, name: migrate.migrate_store(path, path / "new", source=RAW, target=name),
    "init_spec, to": lambda path, name: migrate.init_spec(path, to=name, output=None),
    "init_spec, source_format": lambda path, name: migrate.init_spec(path, to=RAW, source_format=name, output=None),
    "load_spec": lambda path, name: migrate.load_spec(_spec_file(path, name)),
    "Spec": lambda path, name: migrate.Spec(
        name="x", work_dir=path, source={"format": RAW, "path": path}, target={"format": name}
    ),
}


def _spec_file(folder: Path, format_id: str) -> Path:
    file = folder / "migration.toml"
    source = f'source = {{format = "{format_id}", path = "."}}'
    file.write_text(f'name = "x"\nwork_dir = "."\n{source}\ntarget.format = "{RAW}"')
    return file


@pytest.mark.parametrize("call", WITH_A_FORMAT)
def test_an_unknown_format_is_a_spec_error_with_the_nearest_name(call: str, tmp_path: Path) -> None:
    with pytest.raises(migrate.SpecError, match=r"unknown format 'rocksdb.rwa': did you mean 'rocksdb.raw'"):
        WITH_A_FORMAT[call](tmp_path, "rocksdb.rwa")
    assert [path.name for path in tmp_path.iterdir() if path.name != "migration.toml"] == []


def test_stores_open_takes_what_the_adapter_takes() -> None:
    opened = typing.get_type_hints(migrate.DualReadStore.open)
    assert typing.get_type_hints(migrate.DualReadArguments) == {
        name: hint for name, hint in opened.items() if name not in ("path", "return")
    }


def test_every_function_that_takes_a_format_is_asked_for_an_unknown_one() -> None:
    names = {"source", "target", "format", "to", "source_format"}
    functions = {name: each for name in migrate.__all__ if inspect.isfunction(each := getattr(migrate, name))}
    takes = {name for name, each in functions.items() if names & inspect.signature(each).parameters.keys()}
    takes.remove("export")  # `to` is its directory
    assert takes == {call.partition(",")[0] for call in WITH_A_FORMAT} & takes


DOCUMENTED = [*(name for name in migrate.__all__ if inspect.isfunction(getattr(migrate, name))), "DualReadStore.open"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_parameter_of_a_public_function_is_explained(name: str) -> None:
    function = operator.attrgetter(name)(migrate)
    parameters, _ = arguments_and_errors(function)
    assert [*parameters] == [*inspect.signature(function).parameters]
    assert [name for name, text in parameters.items() if not text] == []


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_error_that_a_public_function_names_is_exported(name: str) -> None:
    _, errors = arguments_and_errors(operator.attrgetter(name)(migrate))
    assert [error for error in errors if error not in migrate.__all__] == []
    assert errors or name in ("known_formats", "write_metrics")
