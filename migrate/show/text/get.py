"""The records of a key in both stores as text, a field in each row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from migrate.model.preview import UNPRINTABLE, Shown
from migrate.model.units import moment
from migrate.queries.side_by_side.report import GetReport, RecordReport, SideBySide
from migrate.show.output import Output
from migrate.show.plain import Layout

VERDICTS = {
    "equal": "the new record is what the conversion makes of the old one",
    "different": "the new record is not what the conversion makes of the old one",
    "missing": "the new store does not have it",
    "extra": "only the new store has it",
    "rejected": "the conversion rejects the old record",
    "dropped": "the function drops it, and the new store does not have it",
    "not there yet": "the new store is not assembled yet",
    "gone": "the old store was removed by finalize",
    "nowhere": "neither store has it",
}
SIDES = ("old", "converted", "new")
_BAD = ("different", "missing", "extra", "rejected")
_LONGEST = 200


def show_get(report: GetReport, output: Output) -> list[str]:
    """The stores, and each record with its verdict and fields."""
    layout = output.layout
    name = report.store if report.new_store == report.store else f"{report.store} -> {report.new_store}"
    lines = [f"{name}: {report.old_format} -> {report.new_format}; the migration is {report.state}"]
    lines += [f"not compared: {name}, which a run takes from the changelog" for name in report.leaves_out]
    found = [each for each in report.records if each.verdict != "nowhere"]
    for each in found:
        lines += _record(each, layout)
    if not found:
        lines.append("neither store has this key")
    if not report.is_complete:
        lines.append(f"and more than these {len(report.records)}")
    return lines


def _record(each: SideBySide, layout: Layout) -> list[str]:
    text = VERDICTS[each.verdict] + (f": {each.reason}" if each.reason else "")
    color = "red" if each.verdict in _BAD else "green" if each.verdict == "equal" else None
    lines = ["", layout.styled(f"{each.store_partition}: {each.verdict}", bold=True, fg=color)]
    lines += layout.wrapped(text, indent=2)
    return lines + layout.table(("", *SIDES, " "), [(row.name, *row.texts, row.mark) for row in rows_of(each)])


@dataclass(frozen=True, slots=True)
class Row:
    """One field of a record in both stores."""

    name: str
    """Such as `value.total`."""
    texts: tuple[str, ...]
    """Of each of SIDES; empty: that record does not have it."""
    mark: str
    """"differs", "changed" or empty."""


def rows_of(each: SideBySide) -> list[Row]:
    """The fields of the old, the converted and the new record."""
    columns = [_fields(side) for side in (each.old, each.converted, each.new)]
    names = dict.fromkeys(name for fields in columns for name in fields)
    return [Row(name, tuple(fields.get(name, "") for fields in columns), _mark(each, name)) for name in names]


def _mark(each: SideBySide, path: str) -> str:
    """What a row shows: the new record differs from the converted one, or the conversion changes the field."""
    if any(_is_within(path, name) or _is_within(name, path) for name in each.differences):
        return "differs"
    return "changed" if any(_is_within(path, name) for name in each.changes) else ""


def _is_within(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _fields(record: RecordReport | None) -> dict[str, str]:
    """The fields of a record, each with the text of its value."""
    if record is None:
        return {}
    key, value = _bytes(record.key_bytes), _bytes(record.value_bytes)
    if record.problem:
        return {"problem": record.problem, "key": key, "value": value}
    found = dict([("key", key)] if record.key_serde == "bytes" else _flat("key", record.key))
    found |= dict([("value", value)] if record.value_serde == "bytes" else _flat("value", record.value))
    for name in ("timestamp_ms", "window_start_ms", "window_end_ms"):
        time_ms = getattr(record, name)
        if time_ms is not None:
            found[name] = f"{time_ms} ({moment(time_ms)})" if time_ms >= 0 else str(time_ms)
    if record.headers is not None:
        found["headers"] = _text([list(header) for header in record.headers])
    return found


def _bytes(data: Shown) -> str:
    """As text, in which other bytes are middle dots, unless there is hardly any."""
    dots = data.text.count(UNPRINTABLE)
    return data.text if 2 * dots < max(1, len(data.text)) or not data.size else f"0x{data.hex}"


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - values of JSON
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _flat(f"{path}.{name}", part)
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        for at, part in enumerate(value):
            yield from _flat(f"{path}[{at}]", part)
    else:
        yield path, _text(value)


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
