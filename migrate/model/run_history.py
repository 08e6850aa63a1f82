"""The history of a migration, over all its runs and chunks: the report of `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.model.key_range import KeyRange
from migrate.model.reports import Column, Concern, ProgressReport
from migrate.model.values import Value


class RunSummary(Value):
    """One run of the migration, also one that committed no chunk: it may have assembled or verified."""

    run_id: str
    first_commit_ms: int
    """Milliseconds since the epoch."""
    last_commit_ms: int
    chunks: int
    records_in: int
    seconds: float
    """Seconds of work, summed over the chunks that it rewrote."""
    kind: Literal["run", "replay"] = "run"
    """The command; a replay that was interrupted may have been resumed by runs."""


class ChunkDone(Value):
    """One committed chunk, by its receipt."""

    store_partition: str
    database: str
    number: int
    keys: KeyRange
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    dropped: int
    """Values that the function dropped."""
    rejected: int
    seconds: float
    host: str
    engine: str
    is_after_death: bool = False
    """Whether the portable engine did it because a process had died at it in another one."""
    started_at_ms: int
    """Milliseconds since the epoch."""
    committed_at_ms: int


class StepDone(Value):
    """One step in the ledger after the chunks."""

    step: str
    committed_at_ms: int
    """Milliseconds since the epoch."""
    store_partition: str | None
    """The store partition of the step; None: it is a step of the whole migration."""
    accepted: tuple[Concern, ...] = ()
    """The concerns that were accepted with this step."""


class RunHistory(ProgressReport):
    """The history of a migration over all of its runs."""

    source_format: str
    target_format: str
    source: Path
    new_stores: tuple[Path, ...]
    made_at_ms: int
    """Milliseconds since the epoch."""
    runs: tuple[RunSummary, ...]
    chunks: tuple[ChunkDone, ...]
    dead_letters: Path | None
    """The Delta table with those records, if they were kept."""
    dead_letter_columns: tuple[Column, ...]
    steps: tuple[StepDone, ...]
    """The later steps, in the order of their commits."""
    changelog: str
    """What the migration means for the changelog, in a sentence."""
    warnings: tuple[str, ...]

    def milestones(self) -> list[list[StepDone]]:
        """The steps in groups: consecutive rows of the same step for several store partitions are one group."""
        grouped: list[list[StepDone]] = []
        for step in self.steps:
            if grouped and grouped[-1][-1].step == step.step and step.store_partition is not None:
                grouped[-1].append(step)
            else:
                grouped.append([step])
        return grouped
