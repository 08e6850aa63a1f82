"""What the ledger tells of a migration, chunk by chunk: values, to be shown as JSON or as a page."""

from __future__ import annotations

from pathlib import Path

from migrate.dry_run.report import RejectReason
from migrate.keyrange import KeyRange
from migrate.report_model import Column, Concern, Report, State, Totals, Value, Verification


class RunOfIt(Value):
    """One run of the migration. A run that committed no chunk is there too: it may have assembled, or verified."""

    run_id: str
    first_commit_ms: int
    """Milliseconds since the epoch."""
    last_commit_ms: int
    chunks: int
    records_in: int
    seconds: float
    """Summed over the chunks that it rewrote."""


class ChunkDone(Value):
    """One committed chunk: what its receipt says."""

    store_partition: str
    database: str
    number: int
    keys: KeyRange
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    dropped: int
    """By the function."""
    rejected: int
    seconds: float
    started_at_ms: int
    """Milliseconds since the epoch."""
    committed_at_ms: int
    host: str
    engine: str


class StepDone(Value):
    """One later step that the ledger vouches for."""

    step: str
    committed_at_ms: int
    """Milliseconds since the epoch."""
    store_partition: str | None
    """None: the step is one of the whole migration."""
    accepted: tuple[Concern, ...] = ()
    """What the new stores go live with from here on."""


class RunHistory(Report):
    """Everything that was done for a migration, over all of its runs."""

    name: str
    migration_id: str | None
    """None: not started."""
    state: State
    source_format: str
    target_format: str
    source: Path
    new_stores: tuple[Path, ...]
    published: Path | None
    made_at_ms: int
    """Milliseconds since the epoch."""
    totals: Totals
    verification: Verification | None
    """None: not yet."""
    runs: tuple[RunOfIt, ...]
    chunks: tuple[ChunkDone, ...]
    chunks_planned: int
    chunks_left: int
    rejects: tuple[RejectReason, ...]
    """Of the records that were left out, the most frequent reason first."""
    dead_letters: Path | None
    """The Delta table that holds those records, where they were kept."""
    dead_letter_columns: tuple[Column, ...]
    concerns: tuple[Concern, ...]
    """What holds it back from going live, or what it went live with."""
    steps: tuple[StepDone, ...]
    """In the order of their commits."""
    changelog: str
    """What the migration means for the changelog, in a sentence."""
    warnings: tuple[str, ...]
    next_step: str

    def milestones(self) -> list[list[StepDone]]:
        """The steps; neighbours that are one step of several store partitions together."""
        grouped: list[list[StepDone]] = []
        for step in self.steps:
            if grouped and grouped[-1][-1].step == step.step and step.store_partition is not None:
                grouped[-1].append(step)
            else:
                grouped.append([step])
        return grouped
