"""The user's function, applied to one record: fields that it leaves out stay as they were."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import PurePath
from traceback import walk_tb
from types import FrameType

from formats.encoding.headers import Headers
from formats.errors import EntryError, FunctionError, LossError
from formats.layout import HEADERS, TIMESTAMP, UNKNOWN_TIME
from formats.record import History, StateRecord, Version

Function = Callable[[StateRecord], StateRecord | None]
_OUR_PACKAGES = ("formats", "migrate")
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/"
_INSTALLED = {"site-packages", "dist-packages"}
_SAID = {TIMESTAMP: "a timestamp", HEADERS: "headers"}


def apply_function(
    function: Function, record: StateRecord, lost: Collection[str] = ()
) -> tuple[StateRecord | None, int]:
    """The converted record, and how many values the function drops; None: all of the record's.

    The function gets the former values of a key one by one, each as the record that it was. `lost`: what the new
    format has no room for, so that the function must not add it. Raises FunctionError, LossError.
    """
    call = partial(_converted, function, lost)
    if record.history is not None:
        return _with_history(call, record, record.history)
    converted = call(record)
    return converted, int(converted is None)


def _converted(function: Function, lost: Collection[str], record: StateRecord) -> StateRecord | None:
    converted = _call(function, record)
    if converted is None:
        return None
    if lost:
        _check_room(lost, record, converted)
    kept = {
        name: old
        for name in ("timestamp_ms", "headers", "window")
        if getattr(converted, name) is None and (old := getattr(record, name)) is not None
    }
    return replace(converted, **kept) if kept else converted


def _check_room(lost: Collection[str], record: StateRecord, converted: StateRecord) -> None:
    """Raises LossError for a time or headers that the function added, unless they say nothing."""
    added = {
        TIMESTAMP: converted.timestamp_ms not in (None, UNKNOWN_TIME, record.timestamp_ms),
        HEADERS: converted.headers not in (None, Headers(), record.headers),
    }
    for name in lost:
        if added.get(name):
            error = LossError(f"the function gave the record {_SAID[name]}, which the new format has no room for")
            error.loss = f"loss:{name}"
            raise error


def _with_history(
    call: Callable[[StateRecord], StateRecord | None], record: StateRecord, history: History
) -> tuple[StateRecord | None, int]:
    versions: list[Version] = []
    keys: list[object] = []
    for version in history.versions:
        former = StateRecord(record.key, version.value, timestamp_ms=version.valid_from_ms)
        converted = None if version.value is None else call(former)
        if converted is None:  # no value then, which is stored like a deleted key
            versions.append(Version(version.valid_from_ms, None))
            continue
        if converted.timestamp_ms != version.valid_from_ms:
            raise FunctionError("the function changed since when a former value held, which orders its history")
        versions.append(Version(version.valid_from_ms, converted.value))
        keys.append(converted.key)
    if any(key != keys[0] for key in keys):
        raise FunctionError("the function gave the former values of one key several keys")
    dropped = sum(version.value is not None for version in history.versions) - len(keys)
    if dropped and not keys:
        return None, dropped
    key = keys[0] if keys else record.key
    return StateRecord(key, None, history=replace(history, versions=tuple(versions))), dropped


def _call(function: Function, record: StateRecord) -> StateRecord | None:
    try:
        converted = function(record)
    except (KeyboardInterrupt, OSError):
        raise  # an interrupt or a fault of the machine: not the record's
    except BaseException as error:
        failure = FunctionError(f"the function raised {describe_error(error)}")
        failure.place = _place(error)
        raise failure from error
    if converted is None:
        return None
    if not isinstance(converted, StateRecord):
        raise FunctionError(f"the function returned {type(converted).__name__}, not a StateRecord or None")
    _check(record, converted)
    return converted


def _check(record: StateRecord, converted: StateRecord) -> None:
    """Raises FunctionError for what the function returned and no store could hold, or only seems to hold."""
    if converted.history is not None or (converted.window is not None and record.window is None):
        what = "a window, which the records of this store do not have" if converted.history is None else "a history"
        raise FunctionError(f"the function gave a record {what}: it would be lost")
    at = converted.timestamp_ms
    if at != record.timestamp_ms and isinstance(at, int) and at < UNKNOWN_TIME:
        raise FunctionError(f"the function gave a record the time {at}: before 1970 no broker takes one (-1: unknown)")
    if converted.headers is not None and converted.headers is not record.headers:
        _check_headers(converted.headers)


def _check_headers(headers: object) -> None:
    """Raises FunctionError for headers that the new store's owner could not read."""
    if not isinstance(headers, Headers):
        raise FunctionError(f"the function gave a record {type(headers).__name__} as headers, not Headers")
    encoded: object = headers.encoded
    if not isinstance(encoded, bytes):
        what = type(encoded).__name__
        raise FunctionError(f"the function gave a record Headers of {what}, not of bytes: Headers.of(pairs) makes them")
    try:
        for _ in headers:
            pass
    except EntryError as error:
        raise FunctionError(f"the function gave a record headers that cannot be read: {error}") from error


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
