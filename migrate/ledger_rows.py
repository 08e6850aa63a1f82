"""The ledger's rows: values, without the table that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from migrate.errors import RefusedError
from migrate.keyrange import KeyRange, Stored
from migrate.receipt import Receipt

LEDGER_SCHEMA = 1


class Step(StrEnum):
    """What a row vouches for."""

    RUN = "run"
    CHUNK = "chunk"
    ASSEMBLED = "assembled"
    VERIFIED = "verified"
    MISMATCH = "mismatch"
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
        """The chunk's range."""
        return KeyRange(start=self.start_key, end=self.end_key)

    @property
    def facts(self) -> dict[str, object]:
        """`detail`, parsed."""
        return dict(json.loads(self.detail))


def chunk_row(receipt: Receipt) -> Row:
    """The row that makes a chunk done."""
    return Row(
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


def as_rows(content: Iterable[dict[str, Any]], where: str) -> list[Row]:
    """What was read, in the order of commits. Raises RefusedError for what only a newer release understands."""
    content = list(content)
    newest = max((row["schema_version"] for row in content), default=LEDGER_SCHEMA)
    unknown = {row["step"] for row in content} - {str(step) for step in Step}
    if newest > LEDGER_SCHEMA or unknown:
        what = f"has schema {newest}" if newest > LEDGER_SCHEMA else f"tells of a step {unknown.pop()!r}"
        raise RefusedError(
            f"the ledger {where} {what}; this version knows schema {LEDGER_SCHEMA}",
            hint="use the newer Stateferry that wrote it",
        )
    rows = [Row.model_construct(**{**row, "step": Step(row["step"])}) for row in content]
    return sorted(rows, key=lambda row: row.sequence)
