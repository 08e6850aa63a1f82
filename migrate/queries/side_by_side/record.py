"""Records as reports show them, and the fields in which two of them differ."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from formats import EntryError, Format
from migrate.model.preview import shown
from migrate.queries.json_values import as_json
from migrate.queries.side_by_side.report import RecordReport

_FIELDS = ("key", "value", "timestamp_ms", "headers", "window_start_ms", "window_end_ms", "problem")
DEPTH = 8
"""Levels of objects and lists whose fields have paths; what lies deeper is compared and shown as one."""
_LEVELS = 100
"""Of a value that is shown at all: what writes JSON and text goes a level deeper with each."""
_PLAIN = re.compile(r"[^.\[\]\"]+")


def reported(known: Format, key: bytes, value: bytes) -> RecordReport:
    """An entry of a store of this format."""
    plain = RecordReport(
        key_serde=known.key_serde.name,
        value_serde=known.value_serde.name,
        key_bytes=shown(key),
        value_bytes=shown(value),
    )
    try:
        record = known.decode(key, value)
        if not (_can_be_shown(record.key) and _can_be_shown(record.value)):
            return plain.model_copy(update={"problem": f"nested in more than {_LEVELS} levels, which are not shown"})
        found = {
            "key": as_json(record.key),
            "value": as_json(record.value),
            "timestamp_ms": record.timestamp_ms,
            "headers": record.headers and tuple((name, _base64(each)) for name, each in record.headers),
        }
    except EntryError as error:
        return plain.model_copy(update={"problem": str(error)})
    if record.window is not None:
        found |= {"window_start_ms": record.window.start_ms, "window_end_ms": record.window.end_ms}
    return plain.model_copy(update=found)


def _can_be_shown(value: object, levels: int = _LEVELS) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return levels > 0 and all(_can_be_shown(part, levels - 1) for part in parts)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def differences(
    one: RecordReport | None, other: RecordReport | None, leaves_out: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The fields in which two records differ, such as `value.total`; none where there are no two."""
    if one is None or other is None:
        return ()
    fields = (name for name in _FIELDS if name not in leaves_out)
    return tuple(path for name in fields for path in _paths(name, getattr(one, name), getattr(other, name)))


def field_path(path: str, name: str) -> str:
    """The path of an object's field: `value.total`, or `value["a.b"]` where the name could be taken for a path."""
    return f"{path}.{name}" if _PLAIN.fullmatch(name) else f"{path}[{json.dumps(name, ensure_ascii=False)}]"


def _paths(path: str, one: Any, other: Any, depth: int = DEPTH) -> Iterator[str]:  # noqa: ANN401 - values of JSON
    if depth and isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys((*one, *other)):
            if name not in one or name not in other:
                yield field_path(path, name)
            else:
                yield from _paths(field_path(path, name), one[name], other[name], depth - 1)
    elif depth and isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _paths(f"{path}[{at}]", left, right, depth - 1)
    elif type(one) is not type(other) or one != other:
        yield path
