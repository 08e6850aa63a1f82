"""The old and the new record of a key, or of the first keys of a range, as a page with a form to ask for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.queries.get_report import GetReport, SideBySide
from migrate.show.page.rendering import render
from migrate.show.text.get_text import FieldRow, found_records, rows_of, sentence, summary

_TONES = {"equal": "good", "different": "bad", "missing": "bad", "extra": "bad", "rejected": "bad", "dropped": "warn"}
_LONGEST = 80
"""Characters of a heading."""
_MARKS = {"differs": "bad", "changed": "warn"}


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


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    texts: tuple[str, ...]
    mark: str

    @property
    def tone(self) -> str:
        return _MARKS.get(self.mark, "")


def get_page(form: GetForm, report: GetReport | None = None, problem: str = "") -> str:
    """The page; `problem`: why there is no report."""
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
        "fields": [_Field(row.name, row.texts, row.mark) for row in rows],
    }


def _heading(rows: Sequence[FieldRow]) -> str:
    """The key, with the times of its window."""
    shown = [row for row in rows if row.name.startswith(("key", "window"))]
    text = ", ".join(next(filter(None, row.texts), "") for row in shown)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
