"""The records of a key in both stores, a field in each row: as text, and as a page with a form to ask for others."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from formats.serdes.json_text import dump_json
from migrate.model.display import UNPRINTABLE, beginning, moment, plural, size
from migrate.model.preview import LONGEST, Shown, shared, shown
from migrate.queries.get_report import DEPTH, GetReport, RecordReport, SideBySide, field_path
from migrate.show.output import Output
from migrate.show.plain import Layout

VERDICTS = {
    "equal": "the new record is what the conversion makes of the old one",
    "different": "the new record is not what the conversion makes of the old one",
    "missing": "the new store does not have it",
    "extra": "the new store has it, and the conversion makes no such record",
    "rejected": "the conversion rejects the old record",
    "dropped": "the function drops it, and the new store does not have it",
    "not there yet": "the new store is not assembled yet",
    "gone": "there is no old store: finalize removed it, or the new one is made from rows",
    "nowhere": "neither store has it",
}
SIDES = ("old", "converted", "new")
_LONGEST = 200
_BEFORE = 40
"""Characters shown before the first difference of long texts."""
_LONGEST_NAME = 80
_MOST_FIELDS = 60
_TONES = {"equal": "good", "different": "bad", "missing": "bad", "extra": "bad", "rejected": "bad", "dropped": "warn"}
_COLORS = {"good": "green", "bad": "red"}
_LONGEST_HEADING = 80


def show_get(report: GetReport, output: Output) -> list[str]:
    """The stores, and each record with its verdict and fields."""
    layout = output.layout
    name = report.store if report.new_store == report.store else f"{report.store} -> {report.new_store}"
    lines = [f"{name}: {report.old_format} -> {report.new_format}; the migration is {report.state}"]
    lines += [f"not compared: {name}, which a run takes from the changelog" for name in report.leaves_out]
    found = found_records(report)
    if len(found) != 1:
        lines.append(summary(report))
    for each in found:
        lines += _record(each, layout)
    return lines


def found_records(report: GetReport) -> list[SideBySide]:
    """The records that one of the stores has."""
    return [each for each in report.records if each.verdict != "nowhere"]


def summary(report: GetReport) -> str:
    """How many records of which verdicts there are."""
    verdicts = Counter(each.verdict for each in found_records(report))
    if not verdicts:
        return "neither store has such a record"
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    more = "" if report.is_complete else "; there are more"
    return f"{plural(verdicts.total(), 'record')}: {counts}{more}"


def sentence(each: SideBySide) -> str:
    """What the verdict means, and why."""
    return VERDICTS[each.verdict] + (f": {beginning(each.reason, _LONGEST)}" if each.reason else "")


def _record(each: SideBySide, layout: Layout) -> list[str]:
    color = _COLORS.get(_TONES.get(each.verdict, ""))
    lines = ["", layout.styled(f"{each.store_partition}: {each.verdict}", bold=True, fg=color)]
    lines += layout.wrapped(sentence(each), indent=2)
    rows, left_out = rows_of(each)
    lines += layout.table(("", *SIDES, " "), [(row.name, *row.texts, row.mark) for row in rows])
    return lines + ([f" and {plural(left_out, 'field')} more: --json"] if left_out else [])


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of a record in both stores."""

    name: str
    """Such as `value.total`."""
    texts: tuple[str, ...]
    """Of each of SIDES; empty: that record does not have it."""
    mark: str
    """"differs", "changed" or empty."""


def rows_of(each: SideBySide) -> tuple[list[FieldRow], int]:
    """(the fields of the old, the converted and the new record, how many more there are): those that differ first."""
    columns = [_fields(side) for side in (each.old, each.converted, each.new)]
    names = list(dict.fromkeys(name for fields in columns for name in fields))
    marks = dict.fromkeys(_marked(names, each.changes), "changed") | dict.fromkeys(
        _marked(names, each.differences), "differs"
    )
    if len(names) > _MOST_FIELDS:
        order = ("differs", "changed", "")
        kept = sorted(names, key=lambda name: order.index(marks.get(name, "")))[:_MOST_FIELDS]
        names = [name for name in names if name in set(kept)]
    texts = {name: _cut([fields.get(name, "") for fields in columns]) for name in names}
    rows = [FieldRow(beginning(name, _LONGEST_NAME), texts[name], marks.get(name, "")) for name in names]
    return rows, len({name for fields in columns for name in fields}) - len(rows)


def _marked(names: Iterable[str], paths: Iterable[str]) -> list[str]:
    """The names that are one of the paths, or lie within one, or hold one."""
    wanted = set(paths)
    holders = {part for path in wanted for part in _holders(path)}
    return [name for name in names if name in holders or not wanted.isdisjoint(_holders(name))]


def _holders(path: str) -> Iterator[str]:
    """The path, and the paths that it lies within."""
    yield path
    yield from (path[: found.start()] for found in _STEP.finditer(path))


_STEP = re.compile(r"[.\[]")


def _fields(record: RecordReport | None) -> dict[str, str]:
    if record is None:
        return {}
    key, value = _bytes(record.key_bytes), _bytes(record.value_bytes)
    if record.problem:
        return {"problem": record.problem, "key": key, "value": value}
    found = dict(_payload("key", record.key, record.key_serde))
    found |= dict(_payload("value", record.value, record.value_serde))
    for name in ("timestamp_ms", "window_start_ms", "window_end_ms", "expires_ms"):
        time_ms = getattr(record, name)
        if time_ms is not None:
            found[name] = f"{time_ms} ({moment(time_ms) if time_ms >= 0 else 'unknown'})"
    if record.headers is not None:
        found["headers"] = _text([list(header) for header in record.headers])
    return found


def _payload(path: str, payload: Any, serde: str) -> Iterable[tuple[str, str]]:  # noqa: ANN401 - a value of JSON
    """Without what the store's format puts around it; `payload`: base64 where it is bytes."""
    if serde == "bytes" and payload is not None:
        return [(path, _bytes(shown(base64.b64decode(payload))))]
    return _flat(path, payload)


def _bytes(data: Shown) -> str:
    """As text, in which other bytes are middle dots, unless there is hardly any."""
    if not data.size:
        return "(no bytes)"
    dots = data.text.count(UNPRINTABLE)
    text = data.text if 2 * dots < len(data.text) else f"0x{data.hex}"
    return text if data.size <= LONGEST else f"{text} ({size(data.size)})"


def _flat(path: str, value: Any, depth: int = DEPTH) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - values of JSON
    if depth and isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _flat(field_path(path, name), part, depth - 1)
    elif depth and isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        for at, part in enumerate(value):
            yield from _flat(f"{path}[{at}]", part, depth - 1)
    else:
        yield path, _text(value)


def _text(value: object) -> str:
    return dump_json(value, ensure_ascii=False)


def _cut(texts: list[str]) -> tuple[str, ...]:
    """Long texts from where the new one differs from the converted one, or that one from the old one."""
    start = 0
    if max(map(len, texts)) > _LONGEST:
        pairs = (pair for pair in ((texts[1], texts[2]), (texts[0], texts[1])) if all(pair) and pair[0] != pair[1])
        same = next((shared(*pair) for pair in pairs), 0)
        start = same - _BEFORE if same > _LONGEST - _BEFORE else 0
    return tuple(("..." if start and text else "") + beginning(text[start:], _LONGEST) for text in texts)


@dataclass(frozen=True, slots=True)
class GetForm:
    """What was asked for, and what can be."""

    store: str
    stores: Sequence[str]
    key: str = ""
    key_hint: str = ""
    """How the key is written."""
    window: str = ""
    has_windows: bool = False
    next_page: str = ""
    """The link to the records that follow."""


def get_page(form: GetForm, report: GetReport | None = None, problem: str = "") -> str:
    """The page; `problem`: why there is no report."""
    from migrate.show.page.rendering import render  # loads jinja

    found = [] if report is None else found_records(report)
    said = "" if report is None or len(found) == 1 else summary(report)
    records = [_shown(each) for each in found]
    return render("get.html.j2", page=form, report=report, problem=problem, summary=said, records=records)


def _shown(each: SideBySide) -> dict[str, object]:
    rows, left_out = rows_of(each)
    sides = [side for side in (each.old, each.new, each.converted) if side is not None]
    return {
        "heading": sides[0].key_bytes.text if sides[0].problem else _heading(rows),
        "store_partition": each.store_partition,
        "verdict": each.verdict,
        "tone": _TONES.get(each.verdict, "idle"),
        "sentence": sentence(each),
        "left_out": left_out,
        "fields": rows,
    }


def _heading(rows: Sequence[FieldRow]) -> str:
    """The key, with the times of its window."""
    shown = [row for row in rows if row.name.startswith(("key", "window"))]
    return beginning(", ".join(next(filter(None, row.texts), "") for row in shown), _LONGEST_HEADING)
