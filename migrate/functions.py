"""The user's function: found, fingerprinted, made part of a conversion, on the driver and on executors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from formats import Conversion, Function, get_format
from formats.applying import said_by
from migrate.errors import SpecError
from migrate.function_code import function_at_work, with_code
from migrate.function_modules import forget_modules
from migrate.module_roots import OUR_PACKAGES, roots_of
from migrate.spec import Spec

if TYPE_CHECKING:
    from formats.serde import Serde
    from migrate.payload_serdes import PayloadSerdes


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
    modules: tuple[str, ...] = ()
    """The function's own."""
    files: tuple[str, ...] = ()
    """Data that it reads, by path from the spec."""
    code: tuple[tuple[str, str], ...] = ()
    """What it is made of: digests by path; of the function itself, where it is given as an object, by no path."""


def conversion_ref(spec: Spec, function: Function | None = None) -> ConversionRef:
    """The conversion that a spec describes; `function` stands in for the spec's own. Raises SpecError."""
    section = spec.conversion
    files = tuple(str(spec.resolve(path)) for path in section.py_files)
    _check_files("py_files", files, hint="name a .py file, or a .zip of a package")
    data = [str(spec.resolve(path)) for path in section.files]
    _check_files("files", data, hint="name a file that the function reads, by its path from the spec")
    ref = ConversionRef(
        source=spec.source.format,
        target=spec.target.format,
        default_timestamp_ms=section.default_timestamp_ms,
        function=function or section.function,
        search_path=(*files, str(spec.base_dir)) if section.function else (),
        keys_may_change="key-change" in section.allow,
        key=_serdes(spec, "key"),
        value=_serdes(spec, "value"),
        files=tuple(path.as_posix() for path in section.files) if section.function else (),
    )
    return ref if ref.function is None else with_code(ref)


def _check_files(key: str, files: Iterable[str], *, hint: str) -> None:
    for file in files:
        if not Path(file).is_file():
            raise SpecError(f"[conversion] {key}: {file} is not a file", hint=hint)


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
        function=_load(ref) if isinstance(ref.function, str) else ref.function,
        keys_may_change=ref.keys_may_change,
    )


def _read(serdes: PayloadSerdes, ref: ConversionRef) -> Serde:
    """Without a function Avro goes straight to the new schema; a function sees each value as it was written."""
    from formats.serdes.pairs import resolving

    return serdes.source if ref.function is not None else resolving(serdes.source, serdes.target)


def _load(ref: ConversionRef) -> Function:
    assert isinstance(ref.function, str)
    search_path, roots = roots_of(ref.search_path, ()), roots_of(ref.search_path, ref.modules)
    forget_modules(search_path, roots, dict(ref.code))
    with function_at_work(ref):
        return load_function(ref.function, ref.search_path)


def load_function(name: str, search_path: tuple[str, ...]) -> Function:
    """Import `module:name`. Raises SpecError, which says where it looked."""
    module_name, _, attribute = name.partition(":")
    if module_name.partition(".")[0] in OUR_PACKAGES:
        raise SpecError(f"{module_name!r} is a name of Stateferry's own", hint="give that module another name")
    hint = "put the module beside the spec or name its file in [conversion] py_files"
    try:
        module = _import(module_name, search_path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that is a script may end in `sys.exit()`
        raise SpecError(
            f"the function {name!r} cannot be imported: {said_by(error)}",
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
