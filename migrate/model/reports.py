"""The reports of the commands, and what `status --watch` follows: values, shown as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from migrate.model.comparison import Totals, Verification
from migrate.model.display import plural
from migrate.model.engine_choice import EngineChoice
from migrate.model.preview import RejectReason
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
Phase = Literal["rewriting", "verification"]
_CATCH_UP_SECONDS = 3.0
_CAUGHT_UP_PER_SECOND = 100_000  # records of a tail: read, converted, applied, written and compared


class Throughput(Value):
    """The speed of one phase, over all runs of the migration."""

    phase: Phase
    records: int
    """Records that the phase read."""
    seconds: float
    """Wall-clock seconds in which it was at work on any slot; pauses of more than 2 s between chunks do not count."""
    records_per_second: float


class Column(Value):
    """A column of a Delta table."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class InconclusiveCheck:
    """What a check could not find out, which does not keep a run from starting."""

    detail: str
    fix: str


class Concern(Value):
    """A reason not to put the new stores into use, or one that was accepted when they were."""

    kind: Literal["mismatch", "unverified", "rejects", "changelog", "dropped", "retention"]
    sentence: str
    fix: str
    """How to resolve or accept it."""
    accepted: str = ""
    """The option or setting that accepts it; empty: it is not accepted."""

    @property
    def holds_back(self) -> bool:
        """Whether it keeps the new stores from use: not accepted, and more than a setting of the broker to change."""
        return not self.accepted and self.kind != "retention"


class SetBack(Value):
    """An input of the application that its group reads again from an earlier offset."""

    topic: str
    number: int
    offset: int
    """The first offset to be read."""
    records: int
    """Offsets between that one and the one where the group was."""


class Held(Value):
    """The partitions of an old changelog that hold keys with a value."""

    topic: str
    here: tuple[int, ...]
    """Those of task directories on this host."""
    elsewhere: tuple[int, ...] = ()
    """The others."""
    missing: tuple[int, ...] = ()
    """Of the others: those that no host of this migration has written."""

    @property
    def missing_in_words(self) -> str:
        verb = "holds" if len(self.missing) == 1 else "hold"
        return f"{self.topic}, {_partitions(self.missing)}, {verb} keys that no host of this migration has written"

    def __str__(self) -> str:
        written = tuple(number for number in self.elsewhere if number not in self.missing)
        missing = "not here, and written by no host of this migration"
        parts = [(self.here, "here"), (written, "not here, and written"), (self.missing, missing)]
        found = "; ".join(f"{_partitions(numbers)} {what}" for numbers, what in parts if numbers)
        return f"{self.topic} has keys in {found}" if found else f"{self.topic} has no keys"


def _partitions(numbers: Sequence[int]) -> str:
    """Numbers as text, those that follow each other as a range."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    named = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return f"partition{'' if len(numbers) == 1 else 's'} {named}"


class ChangelogReport(Value):
    """The changelog of one store, in all its partitions."""

    topic: str
    """The old store's."""
    new_topic: str
    """The new store's; the same one where records were appended."""
    records: int
    """Records that the broker has confirmed."""
    tombstones: int
    """Those for keys that the new store does not have."""
    verified: bool
    """Whether it was read back, and holds the new store."""
    adopted: tuple[str, ...] = ()
    """The store partitions that another host has written from its copy, each with that host; this one has written the
    rest."""
    rebuilt: tuple[str, ...] = ()
    """The store partitions that no host has and that were made from the old changelog, each with its records."""
    note: str = ""
    """Why `verify` did not compare it."""
    outdated: int = 0
    """Records that are older than the topic's `retention.ms`, and that a restore lacks once the broker removes them."""


class Verifying(Value):
    """The progress of a full verification that has not ended, by the ranges of keys that it has committed."""

    records: int
    """Records that are compared, and equal."""
    records_expected: int
    share_done: float
    """By records, 0 to 1."""
    records_per_second: float | None
    """Of the command that committed last, since it began to compare; null if it compared none."""
    seconds_left: float | None
    """Seconds that the rest takes at that rate."""


class Behind(Value):
    """The tail: what the old changelogs have that the new stores lack."""

    records: int = 0
    is_most: bool = False
    """They were not counted: by their offsets, there are so many at most."""
    unknown: str = ""
    """Why nothing is known; empty: it is."""

    @property
    def seconds(self) -> float:
        """How long a catch-up takes, roughly: most of it does not depend on the number of records."""
        return _CATCH_UP_SECONDS + self.records / _CAUGHT_UP_PER_SECOND

    def __str__(self) -> str:
        return f"{'up to ' if self.is_most else ''}{plural(self.records, 'record')}"


class ImportedTable(Value):
    """The rows that `import` makes a store of, where there is no old store."""

    table: Path | None = None
    """The directory of the Delta table; None: `import` has not named it yet."""
    version: int | None = None
    rows: int = 0
    files: int = 0
    size: int = 0
    """Bytes of those files."""

    def __str__(self) -> str:
        if self.table is None:
            return "of a table, which `stateferry import` names"
        return f"{plural(self.rows, 'row')} of version {self.version} of {self.table}"


class StandingReport(Report):
    """Where a migration stands, by its plan and ledger."""

    name: str
    migration_id: str | None = None
    """None: it was not started."""
    state: State
    chunks_planned: int = 0
    totals: Totals = Totals()
    throughput: tuple[Throughput, ...] = ()
    verification: Verification | None = None
    """The last one; None: there was none."""
    concerns: tuple[Concern, ...] = ()
    """Reasons not to put the new stores into use, or those that were accepted."""
    changelogs: tuple[ChangelogReport, ...] = ()
    """Those that were written, tails included; none where the changelog stays as it is."""
    published: Path | None = None
    imported: ImportedTable | None = None
    """The rows that are the old records; None: there is an old store."""
    next_step: str


class RunReport(StandingReport):
    """The result of one `run`."""

    migration_id: str
    """The migration's id."""
    run_id: str
    source_format: str
    target_format: str
    source: Path
    store_partitions: int
    chunks_done_before: int
    """Chunks that earlier runs finished."""
    seconds: dict[str, float]
    """Wall-clock seconds of each phase of this run."""
    records_per_second: float
    """The rate of this run's rewriting, by the definition of `throughput`."""
    verification: Verification
    """That of this run, or the last one."""
    new_stores: tuple[Path, ...]
    dead_letters: Path | None
    dead_letter_columns: tuple[Column, ...]
    """The columns of the Delta table at `dead_letters`."""
    changelog: str
    warnings: tuple[str, ...]
    held: tuple[Held, ...] = ()
    """Which partitions of the old changelogs hold keys, where new ones are written, as far as the broker was asked."""
    engine: EngineChoice | None = None
    """Which engine did the work of this run; None: there was nothing to do."""


class ProgressReport(StandingReport):
    """The progress of a migration, over all runs."""

    chunks_left: int = 0
    verifying: Verifying | None = None
    """The progress of a verification that is at work or was interrupted; null: there is none to resume."""
    rejects: tuple[RejectReason, ...] = ()
    """The reasons of the rejected records, the most frequent first."""
    revision: int = 0
    """How many times a replay has replaced the function."""


class StatusReport(ProgressReport):
    """The state of the migration by its plan and ledger; no store is opened."""

    plan_revision: int | None = None
    share_done: float = 0.0
    """By estimated bytes, 0 to 1."""
    runs: int = 0
    last_commit_ms: int | None = None
    """Milliseconds since the epoch."""
    held: tuple[Held, ...] = ()
    """Which partitions of the old changelogs hold keys, where new ones are written, as far as the broker was asked."""
    behind: Behind | None = None
    """What a catch-up would bring; null: there is nothing to catch up with, or nobody asked."""


class RejectsReport(Report):
    """The records that a migration could not convert so far."""

    name: str
    migration_id: str | None
    """The migration's id; None: it was not started."""
    state: State
    records_in: int
    """Records read so far."""
    rejected: int
    """Records that are left out of the new stores."""
    rejects: tuple[RejectReason, ...]
    """By reason: first that of a record at which the last run stopped, then the most frequent first, at most ten."""
    dead_letters: Path | None
    """The Delta table with those records, if they were kept."""
    next_step: str


class VerifyReport(Report):
    """The result of one `verify` that found no difference; a difference is an error."""

    name: str
    migration_id: str
    verification: Verification
    stores: tuple[Path, ...]
    concerns: tuple[Concern, ...] = ()
    """Reasons not to put the new stores into use that this comparison leaves, or those that were accepted."""
    changelogs: tuple[ChangelogReport, ...] = ()
    next_step: str = ""


class TailReport(Value):
    """What one `catch-up` has read of one changelog, and applied to the new store partition."""

    store_partition: str
    number: int
    """1 for the first tail of the store partition."""
    start: int
    end: int
    """The offsets that were read: from `start` up to, but not with `end`."""
    records: int
    keys: int
    """Keys of these records, each with its last one."""
    deleted: int
    """Keys that the new store does not have any more: deleted, dropped or rejected."""
    rejected: int
    expired: int
    """Keys of segments that have expired."""
    dropped: int = 0
    """Keys whose last record the function drops."""


class CatchUpReport(Report):
    """The result of one `catch-up`."""

    name: str
    migration_id: str
    what: str
    """What was done, in a sentence."""
    tails: tuple[TailReport, ...]
    behind: int = 0
    """Offsets of the old changelogs behind an open transaction, which could not be read."""
    application: str = ""
    """Whether the application has stopped, by its group at the broker; empty: that was not asked."""
    seconds: float
    warnings: tuple[str, ...]
    concerns: tuple[Concern, ...] = ()
    """Reasons not to put the new stores into use."""
    next_step: str = ""


class SnapshotReport(Report):
    """The result of one `snapshot`."""

    name: str
    snapshot: Path
    store_partitions: int
    taken_at_ms: int
    """Milliseconds since the epoch."""
    warnings: tuple[str, ...]
    next_step: str


class RestoreReport(Report):
    """The result of one `restore`."""

    name: str
    directory: Path
    """Where the old store lies now."""
    topics: tuple[str, ...]
    store_partitions: int
    records: int
    """Committed records of the topics."""
    keys: int
    """Records of the store."""
    tombstones: int
    """Records that delete a key, and are left out: a versioned store keeps them, and has none."""
    expired: int
    """Records that are older than the store's retention."""
    next_step: str


class SwitchReport(Report):
    """The result of `cutover`, `rollback` or `finalize`."""

    name: str
    migration_id: str
    state: State
    stores: tuple[Path, ...]
    """The exchanged store partitions, where the application opens them."""
    old_stores: Path | None
    """The directory where the old stores are kept until `finalize`; None: nowhere, or in their own places."""
    concerns: tuple[Concern, ...]
    """What was accepted when the new stores were put into use, and what was found since."""
    changelog: str
    """What the use of the new stores means for the changelog."""
    warnings: tuple[str, ...]
    next_step: str
    moved_away: tuple[str, ...] = ()
    """The ids of store partitions whose new stores `finalize` did not find."""
    left_over: tuple[Path, ...] = ()
    """Files in the migration's folder that are not ours, and that `finalize` leaves."""
    topics: tuple[str, ...] = ()
    """The changelogs of the stores that are in use now."""
    set_back: tuple[SetBack, ...] = ()
    """What the application processes again after a rollback."""
    removed_topics: tuple[str, ...] = ()
    """The old changelogs that `finalize` removed."""


class AbandonReport(Report):
    """The result of `abandon`."""

    name: str
    removed: Path | None
    """The migration's folder, which was removed; None: there was none."""
    source: Path
    """The application's directory, which was not touched."""
    left_over: tuple[Path, ...] = ()
    """Files in the migration's folder that are not ours, and that were left."""
    removed_topics: tuple[str, ...] = ()
    """The changelogs that the migration had made."""
    undone_topics: tuple[str, ...] = ()
    """The changelogs to which the old values were appended again."""
    kept_topics: tuple[str, ...] = ()
    """The changelogs that other hosts of this migration use, or may use."""


class Failure(Value):
    """The error, which is on standard error too."""

    message: str
    """What happened, and where."""
    next: str
    """What to do next."""
    exit_code: int
    trace: str = ""
    """The traceback, for a bug or with --debug."""


class ErrorReport(Report):
    """The document that any command prints if it fails."""

    error: Failure


class WatchReport(StatusReport):
    """The state of the migration at one moment, and the speed of the newest run."""

    at_ms: int
    """Milliseconds since the epoch."""
    run_id: str | None = None
    at_work: bool | None = None
    """Whether a command is at work on this host; null if the system does not report it."""
    records_per_second: float | None = None
    """The rate over the last commits; null if there are too few of them."""
    seconds_left: float | None = None
    """Seconds until every chunk is rewritten; assembling and verifying come after: see `verifying`."""
    notice: str = ""
    """A message to the operator, of a sentence or two."""
    is_over: bool = False
    """Whether there is nothing left to follow."""


class SweepReport(Report):
    """One slice of a sweep over the keys of a streaming query."""

    checkpoint: str
    variable: str
    """The old state variable."""
    batch: int
    """The last committed one."""
    unfinished: int | None
    """A batch that was begun after it, and not committed; null: there is none."""
    old_keys: int
    """Keys that had the variable then; with those of earlier slices whose markers the query has not handled yet."""
    written: int
    """Markers."""
    is_newest: bool
    """No key has it, and it came with the newest variables: it may not be the name that the old code used."""
    unread: int | None
    """Files of markers of earlier slices that the query has not read yet; null: of a topic that is not known."""
    to: str
    watermark_ms: int | None
    """The query's. A marker whose event time is not later is dropped. One that is later by more than the watermark's
    delay moves the watermark, which drops rows and fires timers."""
