"""The user's conversion function: found, fingerprinted, and made part of a conversion, on the driver and on executors."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from formats import Conversion, StateRecord, get_format
from migrate.errors import SpecError
from migrate.spec import Spec

Function = Callable[[StateRecord], StateRecord | None]


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


def conversion_ref(spec: Spec, function: Function | None = None) -> ConversionRef:
    """The conversion that a spec describes; `function` stands in for the spec's own."""
    section = spec.conversion
    files = tuple(str(spec.resolve(path)) for path in section.py_files)
    return ConversionRef(
        source=spec.source.format,
        target=spec.target.format,
        default_timestamp_ms=section.default_timestamp_ms,
        function=function or section.function,
        search_path=(*files, str(spec.base_dir)) if section.function else (),
        keys_may_change="key-change" in section.allow,
    )


@lru_cache(maxsize=8)
def load_conversion(ref: ConversionRef) -> Conversion:
    """Raises SpecError where the function cannot be imported."""
    return Conversion(
        source=get_format(ref.source),
        target=get_format(ref.target),
        default_timestamp_ms=ref.default_timestamp_ms,
        function=load_function(ref.function, ref.search_path) if isinstance(ref.function, str) else ref.function,
        keys_may_change=ref.keys_may_change,
    )


def load_function(name: str, search_path: tuple[str, ...]) -> Function:
    """Import `module:name`. Raises SpecError, which says where it looked."""
    module_name, _, attribute = name.partition(":")
    for entry in search_path:
        folder = str(Path(entry).parent) if entry.endswith(".py") else entry
        if folder not in sys.path:
            sys.path.append(folder)
    hint = "put the module beside the spec or name its file in [conversion] py_files"
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise SpecError(
            f"the function {name!r} cannot be imported: {type(error).__name__}: {error}",
            hint=hint if isinstance(error, ModuleNotFoundError) else f"mend the module {module_name}",
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise SpecError(f"the module {module_name!r} ({module.__file__}) has no function {attribute!r}", hint=hint)
    return function  # type: ignore[no-any-return]


def function_digest(ref: ConversionRef) -> str:
    """What the function's code is, for the migration's identity: its module's file and every py_file."""
    if ref.function is None:
        return ""
    function = load_conversion(ref).function
    module = sys.modules.get(getattr(function, "__module__", ""))
    files = [Path(entry) for entry in ref.search_path if Path(entry).is_file()]
    if module is not None and module.__file__ is not None and Path(module.__file__).is_file():
        files.append(Path(module.__file__))
    digest = hashlib.sha256(getattr(function, "__qualname__", "").encode())
    for file in dict.fromkeys(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def module_files(ref: ConversionRef) -> list[Path]:
    """What executors need to import the function: py_files, and the module itself where it lies beside the spec."""
    if not isinstance(ref.function, str):
        return []
    files = [Path(entry) for entry in ref.search_path if Path(entry).is_file()]
    beside = Path(ref.search_path[-1]) / f"{ref.function.partition(':')[0]}.py"
    return [*files, beside] if beside.is_file() and beside not in files else files
