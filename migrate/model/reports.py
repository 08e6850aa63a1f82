"""What a run, or a look at the ledger or at a directory, tells: values, to be shown as text or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.model.comparison import Totals, Verification
from migrate.model.values import Report, Value

State = Literal[
    "not started",
    "snapshot taken",
    "rewriting",
    "assembled",
    "verified",
    "mismatch",
    "published",
    "cutting over",
    "cut over",
    "rolling back",
    "rolled back",
    "finalizing",
    "finalized",
]


class Column(Value):
    """Of a Delta table."""

    name: str
    type: str


class Concern(Value):
    """Something that holds a migration back from going live, or that it went live with."""

    kind: Literal["mismatch", "unverified", "rejects"]
    sentence: str
    fix: str
    """What settles it, or accepts it."""
    accepted: str = ""
    """By what it is accepted; empty: it is not."""


class RunReport(Report):
    """What one `run` did."""

    name: str
    migration_id: str
    run_id: str
    state: State
    source_format: str
    target_format: str
    source: Path
    store_partitions: int
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
    dead_letter_columns: tuple[Column, ...]
    """Of the Delta table at `dead_letters`."""
    concerns: tuple[Concern, ...]
    """What holds it back from going live, or what it went live with."""
    changelog: str
    warnings: tuple[str, ...]
    next_step: str


class StatusReport(Report):
    """What the plan and the ledger say, without looking at a store."""

    name: str
    migration_id: str | None = None
    state: State
    plan_revision: int | None = None
    chunks_planned: int = 0
    chunks_left: int = 0
    share_done: float = 0.0
    """By estimated bytes, 0 to 1."""
    totals: Totals = Totals()
    runs: int = 0
    last_commit_ms: int | None = None
    """Milliseconds since the epoch."""
    verification: Verification | None = None
    concerns: tuple[Concern, ...] = ()
    """What holds it back from going live, or what it went live with."""
    published: Path | None = None
    next_step: str


class VerifyReport(Report):
    """What one `verify` found: everything as it should be, or it would have raised."""

    name: str
    migration_id: str
    verification: Verification
    stores: tuple[Path, ...]


class SnapshotReport(Report):
    """What `snapshot` took."""

    name: str
    snapshot: Path
    store_partitions: int
    taken_at_ms: int
    """Milliseconds since the epoch."""
    warnings: tuple[str, ...]
    next_step: str


class SwitchReport(Report):
    """What `cutover`, `rollback` or `finalize` left."""

    name: str
    migration_id: str
    state: State
    stores: tuple[Path, ...]
    """The store partitions that were exchanged, where the application looks."""
    old_stores: Path | None
    """Where the old ones are kept, until `finalize`."""
    concerns: tuple[Concern, ...]
    """What the new stores went live with, or what is known against them since."""
    changelog: str
    """What it means for the changelog that the new stores are in use."""
    warnings: tuple[str, ...]
    next_step: str
    moved_away: tuple[str, ...] = ()
    """Store partitions whose new stores `finalize` did not see, by id."""
    left_over: tuple[Path, ...] = ()
    """What is in the migration's folder and not ours, by `finalize`."""


class AbandonReport(Report):
    """What `abandon` removed."""

    name: str
    removed: Path | None
    """The migration's folder; None: there was none."""
    source: Path
    """Untouched."""
    left_over: tuple[Path, ...] = ()
    """What is there still and not ours."""


class Failure(Value):
    """What went wrong; standard error has it too."""

    message: str
    """What happened, and where."""
    next: str
    """What to do."""
    exit_code: int
    trace: str = ""
    """The traceback: of a bug, and with --debug."""


class ErrorReport(Report):
    """In place of the report of a command that failed, whatever the command."""

    error: Failure
