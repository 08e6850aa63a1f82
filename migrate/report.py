"""What a run, or a look at the ledger, tells: as values, to be shown as text or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from migrate.verification import Mismatch

REPORT_SCHEMA = 1
State = Literal["not started", "rewriting", "assembled", "verified", "mismatch", "published"]


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_bytes="hex", val_json_bytes="hex")
    schema_version: int = REPORT_SCHEMA


class Totals(BaseModel):
    """Over all committed chunks."""

    model_config = ConfigDict(frozen=True)
    chunks: int = 0
    records_in: int = 0
    records_out: int = 0
    dropped: int = 0
    rejected: int = 0
    bytes_in: int = 0
    task_seconds: float = 0.0
    """Summed over all workers."""


class Verification(BaseModel):
    """How the new stores were compared, and what came of it."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="hex", val_json_bytes="hex")
    mode: Literal["full", "digest", "off"]
    records: int = 0
    missing: int = 0
    differing: int = 0
    extra: int = 0
    first: tuple[Mismatch, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Every record is as it should be."""
        return self.missing + self.differing + self.extra == 0


class RunReport(_Report):
    """What one `run` did."""

    name: str
    migration_id: str
    run_id: str
    state: State
    source_format: str
    target_format: str
    source: Path
    totals: Totals
    chunks_planned: int
    chunks_done_before: int
    """Finished by earlier runs."""
    seconds: dict[str, float]
    """Wall-clock seconds of each phase of this run."""
    records_per_second: float
    """Of this run's rewriting."""
    verification: Verification
    new_stores: tuple[Path, ...]
    published: Path | None
    dead_letters: Path | None
    changelog: str
    warnings: tuple[str, ...]
    next_step: str


class StatusReport(_Report):
    """What the plan and the ledger say, without looking at a store."""

    name: str
    migration_id: str | None
    state: State
    plan_revision: int | None
    chunks_planned: int
    chunks_done: int
    share_done: float
    """By estimated bytes, 0 to 1."""
    totals: Totals
    runs: int
    last_commit_ms: int | None
    verification: Verification | None
    published: Path | None
    next_step: str
