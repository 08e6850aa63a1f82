"""The user's function, applied to one record: what it leaves out stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from formats.encoding.headers import Headers
from formats.errors import FunctionError
from formats.record import History, StateRecord, Version

Function = Callable[[StateRecord], StateRecord | None]


def apply_function(function: Function, record: StateRecord) -> StateRecord | None:
    """What the function makes of a record; None: it drops it. Raises FunctionError.

    The former values of a key are given to it one by one, each as the record that it was.
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
        if converted is None:  # there was nothing then, which is said as of a deleted key
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
        raise  # an operator's wish, and the machine's trouble: not the record's
    except BaseException as error:
        raise FunctionError(f"the function raised {describe_error(error)}") from error
    if converted is not None and not isinstance(converted, StateRecord):
        raise FunctionError(f"the function returned {type(converted).__name__}, not a StateRecord or None")
    if converted is not None and converted.headers is not None and not isinstance(converted.headers, Headers):
        raise FunctionError(f"the function gave a record {type(converted.headers).__name__} as headers, not Headers")
    return converted


def describe_error(error: BaseException) -> str:
    """The type and what it says, as text that every file and terminal can hold; the type where it cannot say it."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}".removesuffix(": ")
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a user's `__str__` may raise anything
        text = name
    return text.encode("utf-8", "backslashreplace").decode()
