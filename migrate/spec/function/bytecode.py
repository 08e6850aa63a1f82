"""The digest of a user's function by its bytecode, for migrations that an earlier release started.

It depends on the version of Python, and for a set in the code on the process.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType

from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef


def conversion_digest(ref: ConversionRef) -> str:
    """The digest of the function's code and of every py_file; empty without a function."""
    if ref.function is None:
        return ""
    function = load_conversion(ref).function
    assert function is not None
    files = [Path(entry) for entry in ref.search_path if Path(entry).is_file()]
    own = getattr(sys.modules.get(function.__module__), "__file__", None)
    folders = [Path(entry) if Path(entry).is_dir() else Path(entry).parent for entry in ref.search_path]
    folders += [Path(own).parent] if own is not None and not ref.search_path else []
    digest = hashlib.sha256(_function_digest(function, folders).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _function_digest(function: Callable[..., object], folders: list[Path]) -> str:
    """The digest of the function's code and values, and of every module of the user's that it can reach.

    `folders`: where the user's modules are. A function whose values cannot be compared gets a new digest each time: it
    is another migration then, never a wrong resume.
    """
    digest = hashlib.sha256()
    for part in _code_of(function):
        digest.update(part)
    module = sys.modules.get(getattr(function, "__module__", ""))
    for file in sorted(_files(module, folders)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _code_of(function: Callable[..., object]) -> Iterator[bytes]:
    code = getattr(function, "__code__", None)
    if code is None:
        yield _value(function)
        return
    yield from _constants(code)
    closure = getattr(function, "__closure__", None) or ()
    for value in (getattr(function, "__defaults__", None), *(cell.cell_contents for cell in closure)):
        if callable(value) and hasattr(value, "__code__"):
            yield from _code_of(value)
        else:
            yield _value(value)


def _constants(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _constants(constant)
        else:
            yield repr(constant).encode()


def _value(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever cannot be pickled cannot be compared
        return uuid.uuid4().bytes


def _files(module: ModuleType | None, folders: list[Path]) -> set[Path]:
    """The files of this module and of those that it refers to, if they are in `folders`."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        module = waiting.pop()
        file = getattr(module, "__file__", None)
        if module is None or file is None or (path := Path(file)) in found or not _is_below(path, folders):
            continue
        found.add(path)
        for member in list(vars(module).values()):
            waiting.append(
                member if isinstance(member, ModuleType) else sys.modules.get(getattr(member, "__module__", None) or "")
            )
    return found


def _is_below(path: Path, folders: list[Path]) -> bool:
    return path.is_file() and "site-packages" not in path.parts and any(path.is_relative_to(f) for f in folders)
