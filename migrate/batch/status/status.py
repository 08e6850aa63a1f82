"""`status`, its watch, and throughput, by plan and ledger: no store is opened, no JVM is started, no lock is taken.

A spec with changelogs also asks the broker, but for the watch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from migrate.batch.changelog.concerns import every_concern
from migrate.batch.home import check_ours
from migrate.batch.ledger.changelog_standing import changelog_reports
from migrate.batch.ledger.gates import not_accepted
from migrate.batch.ledger.standing import Standing, StandingReader, read_standing
from migrate.batch.run_lock import pid_at_work
from migrate.batch.source.restored_source import imported_table
from migrate.batch.status.next_step import following, next_step, work_in_progress
from migrate.batch.status.reject_reasons import reject_reasons
from migrate.errors import system_errors_explained
from migrate.model.comparison import Verification
from migrate.model.ledger_row import Step
from migrate.model.receipt import Receipt
from migrate.model.reports import Behind, Held, Phase, State, StatusReport, Throughput, Verifying, WatchReport
from migrate.spec.spec import Spec

PAUSE_SECONDS = 2.0
"""A longer time in which no chunk is at work is a pause, as between two runs: it does not count as work."""
_SETTLED: tuple[State, ...] = ("mismatch", "published", "cut over", "rolled back", "finalized")
"""States that no run changes by itself."""
_CHUNKS_FOR_RATE = 20


@system_errors_explained()
def status(spec: Spec) -> StatusReport:
    """The state of the migration and its next step, also while a run is at work.

    Args:
        spec: the migration, from `load_spec` or built in code.

    Raises:
        RefusedError: the plan or the ledger is of a newer release, or damaged.
    """
    standing = read_standing(spec.home)
    report = status_of(spec, standing, *asked(spec, standing))
    return report.model_copy(update={"next_step": following(spec.home) or report.next_step})


def asked(spec: Spec, standing: Standing) -> tuple[Behind | None, tuple[Held, ...]]:
    """What the broker says: only a spec with changelogs needs the packages that ask one."""
    if spec.changelog is None:
        return None, ()
    try:
        from migrate.batch.changelog.held_topics import ask_broker
    except ModuleNotFoundError as error:
        return Behind(unknown=f"the package {error.name} is not installed"), ()
    return ask_broker(spec, standing)


def status_of(
    spec: Spec, standing: Standing, behind: Behind | None = None, held: tuple[Held, ...] = ()
) -> StatusReport:
    """The report of `status`; `behind`, `held`: what the new stores lack, where the broker was asked."""
    plan, state, left = standing.plan, standing.state, standing.pending
    if plan is None:
        imported = imported_table(spec)
        is_unnamed = imported is not None and imported.table is None
        step = "stateferry import SPEC --from TABLE" if is_unnamed else next_step(spec, standing, state)
        return StatusReport(name=spec.name, state=state, imported=imported, next_step=step)
    size_left = sum(chunk.estimated_bytes for chunk in left)
    size = sum(chunk.estimated_bytes for chunk in plan.chunks)
    concerns = every_concern(spec, standing)
    rejects = reject_reasons(standing)
    has_stopped = bool(rejects) and rejects[0].ended_run and spec.conversion.function is not None
    following = next_step(
        spec, standing, state, not_accepted(concerns), has_stopped=has_stopped, behind=behind, partitions=held
    )
    return StatusReport(
        name=spec.name,
        migration_id=plan.migration_id,
        state=state,
        plan_revision=plan.revision,
        chunks_planned=len(plan.chunks),
        chunks_left=len(left),
        share_done=1.0 if not left else round(max(0.0, 1 - size_left / max(size, 1)), 4),
        totals=standing.totals,
        throughput=throughput_of(standing),
        runs=len(standing.runs),
        last_commit_ms=standing.last_commit_ms,
        changelogs=changelog_reports(standing.changelogs),
        held=held,
        behind=behind,
        verification=standing.verification,
        verifying=None if left else _verifying(standing),
        concerns=concerns,
        rejects=rejects,
        revision=len(standing.revisions),
        published=standing.published,
        imported=imported_table(spec),
        next_step=following,
    )


def _verifying(standing: Standing) -> Verifying | None:
    """The progress by the rows of ranges; those of store partitions that have changed since do not count."""
    rows = [(row, row.facts) for row in standing.compared_so_far]
    if not rows:
        return None
    newest = {row.store_partition: facts["subject"] for row, facts in rows}
    records = sum(row.records_out or 0 for row, facts in rows if facts["subject"] == newest[row.store_partition])
    expected = max(records, standing.totals.records_out)
    last, facts = rows[-1]
    fresh = sum(row.records_out or 0 for row, _ in rows if row.run_id == last.run_id)
    seconds = max(1, last.committed_at_ms - facts["began_at_ms"]) / 1000
    return Verifying(
        records=records,
        records_expected=expected,
        share_done=round(records / max(1, expected), 4),
        records_per_second=round(fresh / seconds, 1) if fresh else None,
        seconds_left=round((expected - records) * seconds / fresh, 1) if fresh else None,
    )


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one chunk, in seconds of the driver's clock."""

    start: float
    end: float
    records: int


def spans_of(chunks: Iterable[tuple[float, int, int]]) -> list[Span]:
    """The times of chunks, by their starts, from their duration in seconds, time of commit and number of records."""
    ended = ((ms / 1000, max(seconds, 0.001), records) for seconds, ms, records in chunks)
    return sorted((Span(end - seconds, end, records) for end, seconds, records in ended), key=lambda each: each.start)


def pauses_of(spans: Sequence[Span]) -> list[tuple[float, float]]:
    """The pauses between chunks that are sorted by their starts, each as (start, end)."""
    pauses, busy_until = [], spans[0].end
    for each in spans[1:]:
        if each.start - busy_until > PAUSE_SECONDS:
            pauses.append((busy_until, each.start))
        busy_until = max(busy_until, each.end)
    return pauses


def rewriting_of(standing: Standing, receipts: Iterable[Receipt]) -> Throughput | None:
    """The throughput of the chunks with these receipts; None without chunks."""
    spans = spans_of((each.seconds, standing.committed_ms[each.attempt], each.records_in) for each in receipts)
    if not spans:
        return None
    whole = max(each.end for each in spans) - spans[0].start
    seconds = whole - sum(until - since for since, until in pauses_of(spans))
    return _throughput("rewriting", sum(each.records for each in spans), seconds)


def throughput_of(standing: Standing) -> tuple[Throughput, ...]:
    """The throughput of each phase that has worked."""
    phases = (rewriting_of(standing, standing.receipts), _verification_of(standing.verification))
    return tuple(each for each in phases if each is not None)


def _verification_of(found: Verification | None) -> Throughput | None:
    if found is None or not found.seconds:
        return None
    records = found.records - found.records_before
    return _throughput("verification", records, found.seconds) if records else None


def _throughput(phase: Phase, records: int, seconds: float) -> Throughput:
    return Throughput(
        phase=phase, records=records, seconds=round(seconds, 3), records_per_second=round(records / seconds, 1)
    )


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
        pid = pid_at_work(self._spec.home)  # before the ledger, so that it has all commits of a run that ended
        at_work = None if pid is None else pid != 0
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
    newest = [row for row in standing.rows if row.run_id == run and row.step is Step.CHUNK][-_CHUNKS_FOR_RATE:]
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
