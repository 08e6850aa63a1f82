"""What some records of a column family look like: told to a person, never decided by."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from formats import EntryError, Format, get_format
from formats.likeness import leaves_marks, looks_closed_first, looks_like
from migrate.sampling import SampleSize, read_sample
from migrate.stores.rocksdb import Database
from migrate.survey.report import Likeness

_SAMPLE = SampleSize(records=100, max_bytes=1 << 18)
_SURE = 0.95


@dataclass(frozen=True, slots=True)
class Looks:
    """Of some records."""

    likeness: tuple[Likeness, ...] = ()
    closed_first: float = 0.0


def look(database: Database, family: str, fitting: Iterable[str]) -> Looks:
    """Some records from all over a column family, under each format that keeps its records there."""
    formats = [get_format(format_id) for format_id in fitting]
    formats = [known for known in formats if known.column_families is not None and family in known.column_families]
    if not formats:
        return Looks()
    now_ms = int(time.time() * 1000)
    records = [
        record
        for batch in read_sample(database, family, _SAMPLE).batches
        for record in zip(batch.keys, batch.values, strict=True)
    ]
    closed_first = sum(looks_closed_first(key, now_ms=now_ms) for key, _ in records)
    return Looks(
        likeness=tuple(_likeness(known, records, now_ms) for known in formats),
        closed_first=closed_first / max(1, len(records)),
    )


def _likeness(known: Format, records: list[tuple[bytes, bytes]], now_ms: int) -> Likeness:
    return Likeness(
        format=known.id,
        sampled=len(records),
        decoded=sum(_decodes(known, key, value) for key, value in records),
        alike=sum(looks_like(known, key, value, now_ms=now_ms, is_named=True) for key, value in records),
    )


def _decodes(known: Format, key: bytes, value: bytes) -> bool:
    try:
        known.decode(key, value)
    except EntryError:
        return False
    return True


def summed(found: Iterable[Likeness]) -> tuple[Likeness, ...]:
    """Over several column families or RocksDB directories, by format."""
    by_format: dict[str, Likeness] = {}
    for each in found:
        other = by_format.get(each.format)
        by_format[each.format] = (
            each
            if other is None
            else Likeness(
                format=each.format,
                sampled=each.sampled + other.sampled,
                decoded=each.decoded + other.decoded,
                alike=each.alike + other.alike,
            )
        )
    return tuple(by_format.values())


def hint(likeness: Iterable[Likeness]) -> str:
    """What tells formats of the same column families apart; empty: nothing does, or there is nothing to tell."""
    found = [each for each in likeness if each.sampled]
    marked = [each for each in found if leaves_marks(get_format(each.format))]
    if len(found) < 2 or not marked:
        return ""
    alike = [each.format for each in marked if each.alike >= _SURE * each.sampled]
    if alike:
        return f"its records look like {' or '.join(alike)}"
    unlike = [each.format for each in marked if each.alike <= (1 - _SURE) * each.sampled]
    return f"its records do not look like {' or '.join(unlike)}" if len(unlike) == len(marked) else ""
