"""A record before and after the conversion, for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from formats import EntryError, Format, StateRecord
from formats.serde import BytesSerde
from formats.serdes.json_text import dump_json, with_texts
from migrate.batch.plan.sample import Entry
from migrate.dry_run.dry_run_report import BeforeAfter
from migrate.model.display import listed, moment, visible
from migrate.model.preview import cut_beside, shown, shown_beside

Fields = tuple[tuple[str, str], ...]

_LONGEST = 200
"""Characters of a decoded key or value."""
_MOST_HEADERS = 8


def before_after(store_partition: str, old: Entry, new: Entry, *, source: Format, target: Format) -> BeforeAfter:
    """The old and the new record, with their fields as text; long values are cut where they first differ."""
    old_fields, fields = dict(in_words(*old, source)), dict(in_words(*new, target))
    for name in ("key", "value"):
        cut = cut_beside(old_fields.get(name, ""), fields.get(name, ""), _LONGEST)
        for each, text in zip((old_fields, fields), cut, strict=True):
            each.update({name: text} if name in each else {})
    key, new_key = shown_beside(old[0], new[0])
    value, new_value = shown_beside(old[1], new[1])
    return BeforeAfter(
        store_partition=store_partition,
        key=key,
        value=value,
        new_key=new_key,
        new_value=new_value,
        old_fields=tuple(old_fields.items()),
        fields=tuple(fields.items()),
    )


def in_words(key: bytes, value: bytes, known: Format) -> Fields:
    """The fields of a record, and its payloads where a serde is named; nothing if it does not decode."""
    from formats.serdes.conversions import decoding

    known = replace(known, key_serde=decoding(known.key_serde), value_serde=decoding(known.value_serde))
    try:
        record = known.decode(key, value)
        return (*_carried(record), *_payloads(record, known))
    except EntryError:
        return ()


def _carried(record: StateRecord) -> Iterator[tuple[str, str]]:
    if (window := record.window) is not None:
        start = timestamp_in_words(window.start_ms)
        if window.end_ms is None:
            yield "window", f"from {start}"
        else:
            yield "session", f"from {start} to {timestamp_in_words(window.end_ms)}"
        if window.sequence:
            yield "sequence number", str(window.sequence)
    if record.timestamp_ms is not None:
        yield "timestamp", timestamp_in_words(record.timestamp_ms)
    if record.headers is not None:
        found = [f"{visible(name)} = {_header(value)}" for name, value in islice(record.headers, _MOST_HEADERS + 1)]
        yield "headers", listed(found, _MOST_HEADERS) or "none"
    if record.history is not None:
        versions, latest = record.history.versions, timestamp_in_words(record.history.valid_to_ms)
        yield "former values", f"{len(versions)}, from {timestamp_in_words(versions[-1].valid_from_ms)} to {latest}"


def _header(value: bytes | None) -> str:
    if value is None:
        return "null"
    as_shown = shown(value[: _LONGEST // 2])
    dots = "..." if len(value) > _LONGEST // 2 else ""
    return (f'"{as_shown.text}"' if as_shown.text.encode() == value else f"0x{as_shown.hex}") + dots


def _payloads(record: StateRecord, known: Format) -> Iterator[tuple[str, str]]:
    for name, serde, payload in (("key", known.key_serde, record.key), ("value", known.value_serde, record.value)):
        if not isinstance(serde, BytesSerde) and not (name == "value" and record.history is not None):
            yield name, visible(dump_json(with_texts(payload), ensure_ascii=False, default=_plain))


def _plain(payload: Any) -> str:  # noqa: ANN401 - a serde may return any type
    return f"0x{payload.hex()}" if isinstance(payload, bytes) else str(payload)


def timestamp_in_words(milliseconds: int) -> str:
    """The number, and the moment that it stands for."""
    return "-1 (unknown)" if milliseconds == -1 else f"{milliseconds} = {moment(milliseconds)}"
