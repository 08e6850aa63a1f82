"""What `stateferry get` reports: the old record of a key, its conversion, the new record, and where they differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic_core import PydanticSerializationError

from formats import EntryError, Format
from formats.serdes.json_text import dump_json
from migrate.model.preview import Shown, shown
from migrate.model.values import Report, Value
from migrate.queries.json_values import as_json

Verdict = Literal["equal", "different", "missing", "extra", "rejected", "dropped", "not there yet", "gone", "nowhere"]
"""Of one record:

    equal          the new record is what the conversion makes of the old one
    different      it is another one
    missing        the new store has no record of this key
    extra          the conversion makes none, and the new store has one
    rejected       the old record cannot be converted
    dropped        the function drops it, and the new store has none
    not there yet  the new store is not assembled
    gone           the old store was removed by `finalize`, or the new one is made from rows
    nowhere        neither store has the key
"""
_FIELDS = ("key", "value", "timestamp_ms", "headers", "window_start_ms", "window_end_ms", "expires_ms", "problem")
DEPTH = 8
"""Levels of objects and lists whose fields have paths; what lies deeper is compared and shown as one."""
_LEVELS = 100
"""Of a value that is shown at all: what writes JSON and text goes a level deeper with each."""
_PLAIN = re.compile(r"[^.\[\]\"]+")


class _OfRecords(Value):
    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:  # noqa: ANN401 - pydantic's own
        """The report as JSON text, in which numbers of JSON are as they are stored."""
        try:
            return super().model_dump_json(indent=indent, **options)
        except PydanticSerializationError:
            separators = (",", ":") if indent is None else None
            fields = self.model_dump(**options)
            return dump_json(fields, default=str, indent=indent, ensure_ascii=False, separators=separators)


class RecordReport(_OfRecords):
    """A record of one store, decoded by the serdes of the spec."""

    key_serde: str
    value_serde: str
    key: Any = None
    value: Any = None
    """Bytes are written in base64."""
    timestamp_ms: int | None = None
    """null: the format carries none."""
    headers: tuple[tuple[str, str | None], ...] | None = None
    """Names and values, in base64."""
    window_start_ms: int | None = None
    window_end_ms: int | None = None
    """The time of a session's last record; null: a window, or none."""
    expires_ms: int | None = None
    """When the owner removes it; null: never."""
    key_bytes: Shown
    value_bytes: Shown
    """As the store holds it."""
    problem: str = ""
    """Why the bytes cannot be decoded."""


class SideBySide(_OfRecords):
    """One key in both stores."""

    store_partition: str
    old: RecordReport | None = None
    converted: RecordReport | None = None
    new: RecordReport | None = None
    verdict: Verdict
    reason: str = ""
    """Why the conversion rejects the old record."""
    changes: tuple[str, ...] = ()
    """The fields in which the converted record differs from the old one, such as `value.total`."""
    differences: tuple[str, ...] = ()
    """The fields in which the new record differs from the converted one."""


class GetReport(_OfRecords, Report):
    """What `get` prints."""

    store: str
    new_store: str
    """The new store's name."""
    old_format: str
    new_format: str
    state: str
    """The state of the migration, as `status` names it."""
    records: tuple[SideBySide, ...]
    is_complete: bool = True
    """Whether there are no more records than these."""
    next_place: str = ""
    """Where the next record is, as `SideBySideStores.first` takes it."""
    leaves_out: tuple[str, ...] = ()
    """Fields of the converted record that are not compared, since a run takes them from the changelog."""


def reported(known: Format, key: bytes, value: bytes) -> RecordReport:
    """An entry of a store of this format."""
    found: dict[str, Any] = {"problem": f"nested in more than {_LEVELS} levels, which are not shown"}
    try:
        record = known.decode(key, value)
        if _can_be_shown(record.key) and _can_be_shown(record.value):
            found = {
                "key": as_json(record.key),
                "value": as_json(record.value),
                "timestamp_ms": record.timestamp_ms,
                "headers": record.headers and tuple((name, as_json(each)) for name, each in record.headers),
                "window_start_ms": record.window and record.window.start_ms,
                "window_end_ms": record.window and record.window.end_ms,
                "expires_ms": record.expires_ms,
            }
    except EntryError as error:
        found = {"problem": str(error)}
    return RecordReport(
        key_serde=known.key_serde.name,
        value_serde=known.value_serde.name,
        key_bytes=shown(key),
        value_bytes=shown(value),
    ).model_copy(update=found)


def _can_be_shown(value: object, levels: int = _LEVELS) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return levels > 0 and all(_can_be_shown(part, levels - 1) for part in parts)


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
