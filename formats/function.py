"""The user's function, applied to one record: fields that it leaves out stay as they were."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePath
from traceback import walk_tb
from types import FrameType

from formats.encoding.headers import Headers
from formats.errors import FunctionError
from formats.record import History, StateRecord, Version

Function = Callable[[StateRecord], StateRecord | None]
_OUR_PACKAGES = ("formats", "migrate")
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/"
_INSTALLED = {"site-packages", "dist-packages"}


def apply_function(function: Function, record: StateRecord) -> StateRecord | None:
    """The converted record; None: the function drops it. Raises FunctionError.

    The function gets the former values of a key one by one, each as the record that it was.
    """
    return _converted(function, record) if record.history is None else _with_history(function, record, record.history)


def _converted(function: Function, record: StateRecord) -> StateRecord | None:
    converted = _call(function, record)
    if converted is None:
        return None
    kept = {
        name: old
        for name in ("timestamp_ms", "headers", "window")
        if getattr(converted, name) is None and (old := getattr(record, name)) is not None
    }
    return replace(converted, **kept) if kept else converted


def _with_history(function: Function, record: StateRecord, history: History) -> StateRecord | None:
    versions: list[Version] = []
    keys: list[object] = []
    for version in history.versions:
        former = StateRecord(record.key, version.value, timestamp_ms=version.valid_from_ms)
        converted = None if version.value is None else _converted(function, former)
        if converted is None:  # no value then, which is stored like a deleted key
            versions.append(Version(version.valid_from_ms, None))
            continue
        if converted.timestamp_ms != version.valid_from_ms:
            raise FunctionError("the function changed since when a former value held, which orders its history")
        versions.append(Version(version.valid_from_ms, converted.value))
        keys.append(converted.key)
    if any(key != keys[0] for key in keys):
        raise FunctionError("the function gave the former values of one key several keys")
    if not keys and any(version.value is not None for version in history.versions):
        return None
    return StateRecord(keys[0] if keys else record.key, None, history=replace(history, versions=tuple(versions)))


def _call(function: Function, record: StateRecord) -> StateRecord | None:
    try:
        converted = function(record)
    except (KeyboardInterrupt, OSError):
        raise  # an interrupt or a fault of the machine: not the record's
    except BaseException as error:
        failure = FunctionError(f"the function raised {describe_error(error)}")
        failure.place = _place(error)
        raise failure from error
    if converted is not None and not isinstance(converted, StateRecord):
        raise FunctionError(f"the function returned {type(converted).__name__}, not a StateRecord or None")
    if converted is not None and converted.headers is not None and not isinstance(converted.headers, Headers):
        raise FunctionError(f"the function gave a record {type(converted.headers).__name__} as headers, not Headers")
    return converted


def _place(error: BaseException) -> str:
    """File and line of the innermost frame in the user's own modules, named alike on every host.

    Where all of the function is in an installed package: those of its outermost frame.
    """
    frames = list(walk_tb(error.__traceback__))[1:]
    own = [each for each in frames if _is_own(each[0].f_code.co_filename, _module_of(each[0]))] or frames[:1]
    if not own:
        return ""
    frame, line = own[-1]
    file = PurePath(frame.f_code.co_filename)
    depth = _module_of(frame).count(".") + (file.stem == "__init__")
    return f"{'/'.join(file.parts[-1 - depth :])}:{line}"


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


@lru_cache(maxsize=1024)  # asked for each frame of each rejected record
def _is_own(file: str, module: str) -> bool:
    is_installed = not _INSTALLED.isdisjoint(PurePath(file).parts) or file.startswith((_STANDARD_LIBRARY, "<"))
    return not is_installed and module.partition(".")[0] not in _OUR_PACKAGES


def describe_error(error: BaseException) -> str:
    """An error's type and message, in text that every file and terminal can hold; only the type if `__str__` fails."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}".removesuffix(": ")
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a user's `__str__` may raise anything
        text = name
    return text.encode("utf-8", "backslashreplace").decode()
