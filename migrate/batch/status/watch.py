"""`status --watch`: follows a run of another process by its ledger, without taking a lock."""

from __future__ import annotations

import time

from migrate.batch.ledger.marker import check_ours
from migrate.batch.ledger.standing import Standing, StandingReader
from migrate.batch.run_lock import is_run_at_work
from migrate.batch.status.current import status_of
from migrate.batch.status.next_step import work_in_progress
from migrate.errors import system_errors_explained
from migrate.model.ledger_row import Row, Step
from migrate.model.reports import State, StatusReport
from migrate.spec.spec import Spec

_SETTLED: tuple[State, ...] = ("mismatch", "published", "cut over", "rolled back", "finalized")
"""States that no run changes by itself."""
_CHUNKS_FOR_RATE = 20


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


class Watch:
    """Follows one migration."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._reader = StandingReader(spec.home)
        self._began_ms = _now_ms()
        self._was_at_work = False

    @system_errors_explained()
    def poll(self) -> WatchReport:
        """The present state. Raises RefusedError for a plan or a ledger of a newer schema."""
        at_work = is_run_at_work(self._spec.home)  # before the ledger, so that it has all commits of a run that ended
        check_ours(self._spec.home)
        standing = self._reader.read()
        report = status_of(self._spec, standing)
        run = next(reversed(standing.runs), None)
        rate, seconds_left = _speed(standing, run)
        is_over, notice = self._judge(report, at_work=at_work)
        self._was_at_work = self._was_at_work or bool(at_work)
        return WatchReport(
            **(dict(report) | {"next_step": work_in_progress(self._spec.home) or report.next_step}),
            at_ms=_now_ms(),
            run_id=run,
            at_work=at_work,
            records_per_second=rate,
            seconds_left=seconds_left,
            is_over=is_over,
            notice=notice,
        )

    def _judge(self, report: StatusReport, *, at_work: bool | None) -> tuple[bool, str]:
        """Whether the watch is over, and the notice."""
        if self._is_settled(report) and not at_work:
            return True, f"{report.state}: {report.next_step}"
        if at_work is not False:
            return False, ""
        if self._was_at_work:
            return True, f"the run has ended, and the migration is not finished: {report.next_step}"
        if report.last_commit_ms is not None and report.last_commit_ms > self._began_ms:
            return False, "a run of another host is at work, or was: the ledger has new commits"
        return False, f"no run is at work on this host: {report.next_step}"

    def _is_settled(self, report: StatusReport) -> bool:
        spec = self._spec
        if any(concern.kind == "changelog" for concern in report.concerns):
            return False
        ends = ("assembled", "verified") if spec.run.verify == "off" and not report.revision else ("verified",)
        if spec.target_path is None and report.state in ends:
            return True
        return report.state in _SETTLED


def _now_ms() -> int:
    return int(time.time() * 1000)


def _speed(standing: Standing, run: str | None) -> tuple[float | None, float | None]:
    """Records per second over the last chunks of this run, and the seconds until no chunk is left."""
    newest: list[Row] = [row for row in standing.rows if row.run_id == run and row.step is Step.CHUNK]
    newest = newest[-_CHUNKS_FOR_RATE:]
    later = [row for row in newest if row.committed_at_ms > newest[0].committed_at_ms]
    if not later:
        return None, None
    last_ms = later[-1].committed_at_ms
    seconds = (last_ms - newest[0].committed_at_ms) / 1000
    rate = round(sum(row.records_in or 0 for row in later) / seconds, 1)
    bytes_done = sum(row.bytes_in or 0 for row in later)
    bytes_left = sum(chunk.estimated_bytes for chunk in standing.pending)
    if not (bytes_left and bytes_done):
        return rate, None
    return rate, round(max(0.0, bytes_left * seconds / bytes_done - (_now_ms() - last_ms) / 1000), 1)
