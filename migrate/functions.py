"""The user's function: found, fingerprinted, made part of a conversion, on the driver and on executors."""

from __future__ import annotations

import hashlib
import importlib
import sys
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from formats import Conversion, Function, get_format
from migrate.errors import SpecError
from migrate.function_identity import function_digest
from migrate.spec import Spec

if TYPE_CHECKING:
    from formats.serde import Serde
    from migrate.payload_serdes import PayloadSerdes

OUR_PACKAGES = ("formats", "migrate", "jobs")


@dataclass(frozen=True, slots=True)
class ConversionRef:
    """A conversion in a form that a task can carry."""

    source: str
    target: str
    default_timestamp_ms: int = -1
    function: str | Function | None = None
    """`module:name`, or the function itself where the run stays in this process."""
    search_path: tuple[str, ...] = ()
    """Where the module may be, beside what Python finds anyway."""
    keys_may_change: bool = False
    key: PayloadSerdes | None = None
    value: PayloadSerdes | None = None


def conversion_ref(spec: Spec, function: Function | None = None) -> ConversionRef:
    """The conversion that a spec describes; `function` stands in for the spec's own. Raises SpecError."""
    section = spec.conversion
    files = tuple(str(spec.resolve(path)) for path in section.py_files)
    for file in files:
        if not Path(file).is_file():
            hint = "name a .py file, or a .zip of a package"
            raise SpecError(f"[conversion] py_files: {file} is not a file", hint=hint)
    return ConversionRef(
        source=spec.source.format,
        target=spec.target.format,
        default_timestamp_ms=section.default_timestamp_ms,
        function=function or section.function,
        search_path=(*files, str(spec.base_dir)) if section.function else (),
        keys_may_change="key-change" in section.allow,
        key=_serdes(spec, "key"),
        value=_serdes(spec, "value"),
    )


def _serdes(spec: Spec, part: Literal["key", "value"]) -> PayloadSerdes | None:
    section = spec.conversion.key if part == "key" else spec.conversion.value
    if section is None:
        return None
    from migrate.kept_answers import load_answers
    from migrate.payload_serdes import load_serdes  # brings the Avro parser and an HTTP client

    return load_serdes(section, part, spec.resolve, load_answers(spec.home))


@lru_cache(maxsize=8)
def load_conversion(ref: ConversionRef) -> Conversion:
    """Raises SpecError where the function cannot be imported."""
    source, target = get_format(ref.source), get_format(ref.target)
    if ref.key is not None:
        source = replace(source, key_serde=_read(ref.key, ref))
        target = replace(target, key_serde=ref.key.target)
    if ref.value is not None:
        source = replace(source, value_serde=_read(ref.value, ref))
        target = replace(target, value_serde=ref.value.target)
    return Conversion(
        source=source,
        target=target,
        default_timestamp_ms=ref.default_timestamp_ms,
        function=load_function(ref.function, ref.search_path) if isinstance(ref.function, str) else ref.function,
        keys_may_change=ref.keys_may_change,
    )


def _read(serdes: PayloadSerdes, ref: ConversionRef) -> Serde:
    """Without a function Avro goes straight to the new schema; a function sees each value as it was written."""
    from formats.serdes.pairs import resolving

    return serdes.source if ref.function is not None else resolving(serdes.source, serdes.target)


def load_function(name: str, search_path: tuple[str, ...]) -> Function:
    """Import `module:name`. Raises SpecError, which says where it looked."""
    module_name, _, attribute = name.partition(":")
    if module_name.partition(".")[0] in OUR_PACKAGES:
        raise SpecError(f"{module_name!r} is a name of Stateferry's own", hint="give that module another name")
    hint = "put the module beside the spec or name its file in [conversion] py_files"
    try:
        module = _import(module_name, search_path)
    except (Exception, SystemExit) as error:  # a module that is a script may end in `sys.exit()`
        raise SpecError(
            f"the function {name!r} cannot be imported: {type(error).__name__}: {error}",
            hint=hint if isinstance(error, ModuleNotFoundError) else f"mend the module {module_name}",
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise _no_function(module, attribute)
    return function  # type: ignore[no-any-return]


def _import(module_name: str, search_path: tuple[str, ...]) -> ModuleType:
    """The module that the search path has, even where one of that name lies elsewhere or was imported before."""
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


def _no_function(module: ModuleType, attribute: str) -> SpecError:
    names = [name for name, member in vars(module).items() if callable(member) and not name.startswith("_")]
    near = get_close_matches(attribute, names, n=1)
    return SpecError(
        f"the module {module.__name__!r} ({module.__file__}) has no function {attribute!r}",
        hint=f"did you mean {near[0]!r}?" if near else "name one that it has in [conversion] function",
    )


def conversion_digest(ref: ConversionRef) -> str:
    """What the function's code is, for the migration's identity: its modules and every py_file; empty without one."""
    if ref.function is None:
        return ""
    function = load_conversion(ref).function
    assert function is not None
    files = [Path(entry) for entry in ref.search_path if Path(entry).is_file()]
    own = getattr(sys.modules.get(function.__module__), "__file__", None)
    folders = [Path(entry) if Path(entry).is_dir() else Path(entry).parent for entry in ref.search_path]
    folders += [Path(own).parent] if own is not None and not ref.search_path else []
    digest = hashlib.sha256(function_digest(function, folders).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def module_files(ref: ConversionRef) -> list[Path]:
    """What executors need to import the function: py_files, and the module itself where it lies beside the spec."""
    if not isinstance(ref.function, str):
        return []
    files = [Path(entry) for entry in ref.search_path if Path(entry).is_file()]
    package = ref.function.partition(":")[0].partition(".")[0]
    if (Path(ref.search_path[-1]) / package).is_dir():
        raise SpecError(
            f"the package {package!r} beside the spec does not reach Spark's executors",
            hint="zip it, and name the zip in [conversion] py_files",
        )
    beside = Path(ref.search_path[-1]) / f"{package}.py"
    return [*files, beside] if beside.is_file() and beside not in files else files
