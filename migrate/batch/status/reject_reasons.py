"""The dead-letter summary: all rejects by reason, counted, with a few examples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.home import DEAD_LETTERS
from migrate.engine.rejects import EXAMPLES, MOST_COUNTED, MOST_REASONS, OTHER, reject_example
from migrate.model.preview import RejectExample, RejectReason
from migrate.model.receipt import Receipt

MOST_READ = 2_000_000
"""The number of rejects whose reason is read."""
_MOST_BYTES = 64 << 20
"""The bytes of a file's row group that may be read for one example."""
_COLUMNS = ["store_partition", "family", "key", "value", "reason"]
_MISREAD = (LookupError, TypeError, ValueError, AssertionError)
"""Errors of a damaged file beside pyarrow's own: columns with other names, or without values."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of one reject."""

    file: Path
    group: int
    row: int
    """The row within its row group."""


def reject_reasons(home: Path, receipts: Iterable[Receipt]) -> tuple[RejectReason, ...]:
    """The reasons, the most frequent first. Empty if no rejects were kept, or if their files are gone."""
    files = _files(home, receipts)
    if not files:
        return ()
    counts: Counter[str] = Counter()
    places: dict[str, list[_Place]] = defaultdict(list)
    for place, found in _reasons(files):
        reason = found if found in counts or len(counts) < MOST_COUNTED else OTHER
        counts[reason] += 1
        if len(places[reason]) < EXAMPLES:
            places[reason].append(place)
        if counts.total() >= MOST_READ:
            break
    return tuple(
        RejectReason(reason=reason, records=records, examples=tuple(_examples(places[reason])))
        for reason, records in counts.most_common(MOST_REASONS)
    )


def _files(home: Path, receipts: Iterable[Receipt]) -> list[Path]:
    """The chunks' reject files; if any of those was removed, the files of the dead-letter table."""
    own = [home / receipt.rejects_file for receipt in receipts if receipt.rejects_file is not None]
    if all(file.is_file() for file in own):
        return own
    return sorted((home / DEAD_LETTERS).glob("*.parquet"))


def _reasons(files: list[Path]) -> Iterator[tuple[_Place, str]]:
    """The place and the reason of each reject; only the column of the reasons is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        with suppress(pa.ArrowException, OSError, *_MISREAD):  # removed meanwhile, or damaged: skip it
            content = pq.ParquetFile(file)
            for group in range(content.num_row_groups):
                row = 0
                for batch in content.iter_batches(row_groups=[group], columns=["reason"], use_threads=False):
                    for reason in batch.column(0).to_pylist():
                        yield _Place(file, group, row), reason
                        row += 1


def _examples(places: list[_Place]) -> Iterator[RejectExample]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for place in places:
        with suppress(pa.ArrowException, OSError, *_MISREAD):
            content = pq.ParquetFile(place.file)
            about = content.metadata.row_group(place.group)
            if about.total_byte_size * (place.row + 1) / about.num_rows > _MOST_BYTES:
                continue
            at = 0
            for batch in content.iter_batches(256, row_groups=[place.group], columns=_COLUMNS, use_threads=False):
                if place.row < at + batch.num_rows:
                    yield reject_example(**batch.slice(place.row - at, 1).to_pylist()[0])
                    break
                at += batch.num_rows
