"""`status --watch`: a run of another process, followed by what it commits and the files that it writes.

Nothing is asked of the run itself, and nothing of what it holds is touched: no lock, no store.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from migrate.attempts import AttemptsSeen
from migrate.ledger_rows import Row, Step
from migrate.ledger_status import status_of
from migrate.marker import check_ours
from migrate.receipt import Receipt
from migrate.report_model import State, StatusReport, Value
from migrate.spec import Spec
from migrate.standing import Standing, StandingReader
from migrate.stores.run_lock import is_run_at_work
from migrate.system_errors import system_errors_explained

_SETTLED: tuple[State, ...] = ("mismatch", "published", "cut over", "rolled back", "finalized")
"""No run goes on from here by itself."""
_COMMITS = 20
"""The rate is that of the last so many commits."""
_QUIET_SECONDS = 60.0
_QUIET_CHUNKS = 3
"""Nothing for so many times as long as the slowest chunk took: that is worth a word."""


class SlowChunk(Value):
    """The committed chunk that took longest."""

    store_partition: str
    database: str
    number: int
    seconds: float
    host: str


class HostShare(Value):
    """What one host has done in this run."""

    host: str
    chunks: int
    records_in: int


class WatchReport(StatusReport):
    """One look at a run: where the migration stands, and how it moves. Rates are of the newest run."""

    at_ms: int
    """Milliseconds since the epoch."""
    run_id: str | None = None
    at_work: bool | None = None
    """Whether a command is at work on this host; None: this system does not tell."""
    records_per_second: float | None = None
    """Of the last commits; None: too few of them."""
    seconds_left: float | None = None
    """Until every chunk is rewritten; assembling and verifying come after."""
    chunks_at_work: int = 0
    """Begun by this run, and not done."""
    retries: int = 0
    """Attempts beyond the first at a chunk that were seen."""
    slowest: SlowChunk | None = None
    hosts: tuple[HostShare, ...] = ()
    quiet_seconds: float | None = None
    """Since something was committed, or written to a chunk."""
    notice: str = ""
    """What an onlooker should know, in a sentence or two."""
    is_over: bool = False
    """There is nothing left to follow."""


@dataclass(frozen=True, slots=True)
class _Commit:
    at_ms: int
    records: int
    size: int


class Watch:
    """Follows one migration."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._reader = StandingReader(spec.home)
        self._began_ms = _now_ms()
        self._was_at_work = False
        self._attempts: AttemptsSeen | None = None

    @system_errors_explained()
    def look(self) -> WatchReport:
        """How it stands now. Raises RefusedError for a plan or a ledger of a newer schema."""
        at_work = is_run_at_work(self._spec.home)  # first: what it did last is in the ledger when it is no longer there
        check_ours(self._spec.home)
        standing = self._reader.read()
        report = status_of(self._spec, standing)
        run = _newest_run(standing.rows)
        mine = [receipt for receipt in standing.receipts if receipt.run_id == run]
        attempts = self._look_at_attempts(standing, run)
        commits = _commits(standing.rows, run)
        rate, size_rate = _rates(commits)
        seen = WatchReport(
            **dict(report),
            at_ms=_now_ms(),
            run_id=run,
            at_work=at_work,
            records_per_second=rate,
            seconds_left=_seconds_left(standing, commits, size_rate),
            chunks_at_work=0 if attempts is None or at_work is False else attempts.at_work,
            retries=0 if attempts is None else attempts.retries,
            slowest=_slowest(mine),
            hosts=_hosts(mine),
            quiet_seconds=_quiet_seconds(report, attempts),
        )
        return self._judged(seen)

    def _look_at_attempts(self, standing: Standing, run: str | None) -> AttemptsSeen | None:
        if run is None or standing.plan is None:
            return None
        if self._attempts is None or self._attempts.run_id != run:
            begun = next(number for number, row in enumerate(standing.rows) if row.run_id == run)
            found = replace(standing, rows=standing.rows[:begun])  # by that run, when it began
            self._attempts = AttemptsSeen.of(self._spec.home, run, found.left)
        self._attempts.look(standing.receipts, standing.left)
        return self._attempts

    def _judged(self, seen: WatchReport) -> WatchReport:
        """With what follows from it."""
        is_over, notice = False, ""
        if _is_settled(seen, self._spec) and not seen.at_work:
            is_over, notice = True, f"{seen.state}: {seen.next_step}"
        elif self._was_at_work and seen.at_work is False:
            is_over, notice = True, f"the run has ended, and the migration is not finished: {seen.next_step}"
        elif seen.at_work is False:
            notice = self._who_else(seen)
        elif seen.quiet_seconds is not None and seen.quiet_seconds >= _patience(seen):
            notice = f"nothing was committed, and no chunk grew, for {seen.quiet_seconds:,.0f} s"
        self._was_at_work = self._was_at_work or bool(seen.at_work)
        return seen.model_copy(update={"is_over": is_over, "notice": notice})

    def _who_else(self, seen: WatchReport) -> str:
        if seen.last_commit_ms is not None and seen.last_commit_ms > self._began_ms:
            return "a run of another host is at work, or was: the ledger has moved"
        return f"no run is at work on this host: {seen.next_step}"


def _now_ms() -> int:
    return int(time.time() * 1000)


def _is_settled(seen: WatchReport, spec: Spec) -> bool:
    if spec.target_path is None and (
        seen.state == "verified" or (seen.state == "assembled" and spec.run.verify == "off")
    ):
        return True
    return seen.state in _SETTLED


def _patience(seen: WatchReport) -> float:
    return max(_QUIET_SECONDS, _QUIET_CHUNKS * (0.0 if seen.slowest is None else seen.slowest.seconds))


def _newest_run(rows: Sequence[Row]) -> str | None:
    return next((row.run_id for row in reversed(rows) if row.step is Step.RUN), None)


def _commits(rows: Sequence[Row], run: str | None) -> list[_Commit]:
    """Of this run, the first one its beginning; several chunks may share one."""
    by_sequence: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row.run_id == run and row.step in (Step.RUN, Step.CHUNK):
            by_sequence[row.sequence].append(row)
    return [
        _Commit(
            at_ms=together[0].committed_at_ms,
            records=sum(row.records_in or 0 for row in together),
            size=sum(row.bytes_in or 0 for row in together),
        )
        for together in by_sequence.values()
    ]


def _rates(commits: list[_Commit]) -> tuple[float | None, float | None]:
    """Records and bytes per second. A run's beginning tells little: it takes a snapshot first, and may start Spark."""
    first = 1 if len(commits) > 2 else 0
    window = commits[max(first, len(commits) - _COMMITS - 1) :]
    seconds = (window[-1].at_ms - window[0].at_ms) / 1000 if window else 0.0
    if seconds <= 0:
        return None, None
    return (
        round(sum(commit.records for commit in window[1:]) / seconds, 1),
        sum(commit.size for commit in window[1:]) / seconds,
    )


def _seconds_left(standing: Standing, commits: list[_Commit], size_rate: float | None) -> float | None:
    if not standing.left or not size_rate:
        return None
    left = sum(chunk.estimated_bytes for chunk in standing.left) / size_rate
    return round(max(0.0, left - (_now_ms() - commits[-1].at_ms) / 1000), 1)


def _slowest(receipts: list[Receipt]) -> SlowChunk | None:
    found = max(receipts, key=lambda receipt: receipt.seconds, default=None)
    if found is None:
        return None
    return SlowChunk(
        store_partition=found.store_partition,
        database=found.database,
        number=found.number,
        seconds=found.seconds,
        host=found.host,
    )


def _hosts(receipts: list[Receipt]) -> tuple[HostShare, ...]:
    chunks = Counter(receipt.host for receipt in receipts)
    records: Counter[str] = Counter()
    for receipt in receipts:
        records[receipt.host] += receipt.records_in
    return tuple(HostShare(host=host, chunks=chunks[host], records_in=records[host]) for host in sorted(chunks))


def _quiet_seconds(report: StatusReport, attempts: AttemptsSeen | None) -> float | None:
    if report.last_commit_ms is None:
        return None
    last = max(report.last_commit_ms / 1000, 0.0 if attempts is None else attempts.last_write)
    return round(max(0.0, time.time() - last), 1)
