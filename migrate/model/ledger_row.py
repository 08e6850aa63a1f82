"""The ledger's rows as values, without the table that stores them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from migrate.errors import DamagedLedgerError, RefusedError
from migrate.model.comparison import Verification
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk
from migrate.model.preview import RejectReason
from migrate.model.receipt import Receipt
from migrate.model.values import Stored, StoredKind, compact, of_valid

LEDGER_SCHEMA = 1


class Step(StrEnum):
    """The step that a row records as done."""

    RUN = "run"
    CHUNK = "chunk"
    FAILED = "failed"
    REVISED = "revised"
    ASSEMBLED = "assembled"
    COMPARED = "compared"
    """One range of a full verification that has not ended, found equal."""
    VERIFIED = "verified"
    MISMATCH = "mismatch"
    CHANGELOG = "changelog"
    """The way, the group and the topics, with the ids of those that are ours; before the first record is written."""
    TIMES = "times"
    """The last changelog record of each key of a store partition, in a sorted run."""
    PRODUCED = "produced"
    """Changelog records of one range, confirmed by the broker."""
    REREAD = "reread"
    """A changelog, read back, holds the new store."""
    TAIL = "tail"
    """What the application wrote since the snapshot, converted, in sorted runs."""
    REBUILT = "rebuilt"
    """A store partition that no host has: converted from its changelog, written, or read back."""
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    CUTTING_OVER = "cutting-over"
    CUT_OVER = "cut-over"
    ROLLING_BACK = "rolling-back"
    ROLLED_BACK = "rolled-back"
    FINALIZING = "finalizing"
    FINALIZED = "finalized"


class Row(Stored):
    """One row. `detail` is JSON: for a chunk its receipt."""

    schema_version: int = LEDGER_SCHEMA
    sequence: int = 0
    migration_id: str
    run_id: str
    step: Step
    store_partition: str | None = None
    database: str | None = None
    start_key: bytes | None = None
    end_key: bytes | None = None
    records_in: int | None = None
    records_out: int | None = None
    rejected: int | None = None
    dropped: int | None = None
    bytes_in: int | None = None
    seconds: float | None = None
    committed_at_ms: int = 0
    detail: str = "{}"

    @property
    def keys(self) -> KeyRange:
        return KeyRange(start=self.start_key, end=self.end_key)

    @cached_property
    def receipt(self) -> Receipt:
        """The receipt of a chunk. Raises RefusedError for one of a newer release."""
        return compact(read_detail(self, Receipt, "a receipt"))

    @property
    def facts(self) -> dict[str, Any]:
        return dict(json.loads(self.detail))

    @property
    def verification(self) -> Verification:
        return Verification.model_validate(self.facts["verification"])


class StoppedRun(Stored):
    """A record that could not be converted, and ended a run."""

    revision: str
    """The revision of the conversion that rejected it."""
    chunk: Chunk
    reason: RejectReason


def chunk_row(receipt: Receipt) -> Row:
    """The row that records a chunk as done."""
    row = Row(
        migration_id=receipt.migration_id,
        run_id=receipt.run_id,
        step=Step.CHUNK,
        store_partition=receipt.store_partition,
        database=receipt.database,
        start_key=receipt.keys.start,
        end_key=receipt.keys.end,
        records_in=receipt.records_in,
        records_out=receipt.records_out,
        rejected=receipt.rejected,
        dropped=receipt.dropped,
        bytes_in=receipt.bytes_in,
        seconds=receipt.seconds,
        detail=receipt.model_dump_json(),
    )
    row.__dict__["receipt"] = compact(receipt)  # known, and not to be parsed again
    return row


def read_detail(row: Row, kind: type[StoredKind], what: str) -> StoredKind:
    """The value in the row's `detail`; `what` names it. Raises RefusedError for one of a newer release."""
    try:
        return kind.model_validate_json(row.detail)
    except ValidationError as error:
        raise RefusedError(
            f"{what} in the ledger cannot be understood: {error.errors()[0]['msg']}",
            hint="use the newer Stateferry that wrote it",
        ) from error


def as_rows(content: Iterable[dict[str, Any]], where: str) -> list[Row]:
    """The rows read from storage, in the order of commits.

    Raises RefusedError for rows of a newer release, DamagedLedgerError for rows that are not as they were written.
    """
    try:
        rows = [_as_row(row) for row in content]
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_ledger(
            where, f"a row of it is not as it was written ({type(error).__name__}: {error})"
        ) from error
    newest = max((row.schema_version for row in rows), default=LEDGER_SCHEMA)
    unknown = {str(row.step) for row in rows} - _STEPS.keys()
    if newest > LEDGER_SCHEMA or unknown:
        what = f"has schema {newest}" if newest > LEDGER_SCHEMA else f"has a step {unknown.pop()!r}"
        raise RefusedError(
            f"the ledger {where} {what}; this version knows schema {LEDGER_SCHEMA}",
            hint="use the newer Stateferry that wrote it",
        )
    return sorted(rows, key=lambda row: row.sequence)


def check_migration(rows: Iterable[Row], migration_id: str, ledger: Path) -> None:
    """Raises RefusedError for rows of another migration, except those of runs that did nothing but start."""
    foreign = {row.migration_id for row in rows if row.step is not Step.RUN} - {migration_id}
    if foreign:
        raise RefusedError(
            f"the ledger in {ledger} belongs to the migration {foreign.pop()}, this one is {migration_id}",
            hint="give this migration another `name`, or give the one in this folder up: stateferry abandon SPEC",
        )


def damaged_ledger(where: str, what: str) -> DamagedLedgerError:
    """The error for a ledger that is not as it was written."""
    return DamagedLedgerError(
        f"the ledger {where} is damaged: {what}",
        hint="stateferry run SPEC repairs it, and so do cutover, rollback and finalize; the source was not touched",
    )


def _as_row(content: dict[str, Any]) -> Row:
    fields = dict(zip(_FIELDS, _in_order(content), strict=True))
    return of_valid(Row, {**fields, "step": _STEPS.get(fields["step"], fields["step"])})


_STEPS = {str(step): step for step in Step}
_FIELDS = tuple(Row.model_fields)
_in_order = itemgetter(*_FIELDS)
