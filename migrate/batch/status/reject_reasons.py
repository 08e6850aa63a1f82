"""`rejects`: the records that could not be converted, by reason, counted, with a few examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.home import DEAD_LETTERS
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.engine.rejects import EXAMPLES, MOST_COUNTED, OTHER, RejectsByReason, numbers_left_out, reject_example
from migrate.errors import system_errors_explained
from migrate.model.key_range import subtract
from migrate.model.ledger_row import Step, StoppedRun
from migrate.model.preview import RejectExample, RejectReason
from migrate.model.receipt import Receipt
from migrate.model.reports import RejectsReport
from migrate.spec.spec import Spec

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


@system_errors_explained()
def rejects(spec: Spec) -> RejectsReport:
    """The records that the migration could not convert so far, by reason. Takes no lock and writes nothing.

    Args:
        spec: the migration, from `load_spec` or built in code.

    Raises:
        RefusedError: the plan or the ledger is of a newer release, or damaged.
    """
    standing = read_standing(spec.home)
    letters = spec.home / DEAD_LETTERS
    reasons = reject_reasons(standing)
    return RejectsReport(
        name=spec.name,
        migration_id=None if standing.plan is None else standing.plan.migration_id,
        state=standing.state,
        records_in=standing.totals.records_in,
        rejected=standing.totals.rejected,
        rejects=reasons,
        dead_letters=letters if letters.is_dir() and standing.totals.rejected else None,
        next_step=_next_step(spec, standing) if reasons else "nothing: no record was rejected",
    )


def _next_step(spec: Spec, standing: Standing) -> str:
    if standing.is_live:
        return f"the new stores are in use ({standing.state}) without these records, which the old ones still hold"
    if spec.conversion.function is None:
        return "correct [source] format, or the serdes of [conversion], and start again under another `name`"
    return "mend the function; then stateferry replay SPEC rewrites what lacks these records, and nothing else"


def reject_reasons(standing: Standing, *, from_files: bool = True) -> tuple[RejectReason, ...]:
    """The reasons, the most frequent first, by the receipts; that of a record at which the last run stopped leads.

    `from_files`: receipts of earlier releases do not have the reasons; then the files of kept rejects are read.
    """
    merged, older = RejectsByReason(), []
    for receipt in standing.receipts:
        for each in receipt.reasons:
            found = tuple(example.model_copy(update=_place_of(receipt)) for example in each.examples)
            merged.take(each.reason, each.place, each.records, lambda found=found: found)  # type: ignore[misc]
        if receipt.reasons and (rest := receipt.rejected - sum(each.records for each in receipt.reasons)):
            merged.take(OTHER, "", rest, tuple)
        if receipt.rejected and not receipt.reasons:
            older.append(receipt)
    stopped = stopped_at(standing)
    files = _of_files(standing.home, older) if from_files and older else ()
    return (*(() if stopped is None else (stopped,)), *merged.reasons, *files)


def stopped_at(standing: Standing) -> RejectReason | None:
    """The record at which the last run stopped, unless its chunk is rewritten or the function replaced since."""
    last = next((row for row in reversed(standing.rows) if row.step is Step.FAILED), None)
    stopped = None if last is None else StoppedRun.model_validate(last.facts)
    if stopped is None or stopped.revision != standing.revision_id:
        return None
    chunk = stopped.chunk
    where = (chunk.store_partition, chunk.database)
    left = [each.keys for each in standing.pending if (each.store_partition, each.database) == where]
    if subtract(chunk.keys, left) == [chunk.keys]:
        return None
    place = {"store_partition": chunk.store_partition, "chunk": chunk.number}
    examples = tuple(example.model_copy(update=place) for example in stopped.reason.examples)
    return stopped.reason.model_copy(update={"examples": examples})


def _place_of(receipt: Receipt) -> dict[str, object]:
    return {"store_partition": receipt.store_partition, "chunk": receipt.number}


def _of_files(home: Path, receipts: list[Receipt]) -> tuple[RejectReason, ...]:
    """The reasons in the files of kept rejects. Empty if none were kept, or if their files are gone."""
    merged = RejectsByReason()
    places: dict[str, list[_Place]] = defaultdict(list)
    for place, reason in _reasons(_files(home, receipts)):
        merged.take(reason, "", 1, tuple)
        known = places[numbers_left_out(reason)]
        if len(places) <= MOST_COUNTED and len(known) < EXAMPLES:
            known.append(place)
        if merged.count >= MOST_READ:
            break
    return tuple(
        each.model_copy(update={"examples": tuple(_examples(places[numbers_left_out(each.reason)]))})
        for each in merged.reasons
    )


def _files(home: Path, receipts: list[Receipt]) -> list[Path]:
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
