"""`plan`: what a run of a spec would do, told without touching anything."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version

from migrate.batch.context import Context, make_context
from migrate.batch.ledger.intervals import pending_chunks, under_reject_policy
from migrate.batch.ledger.marker import is_usable
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.plan.make import plan_databases
from migrate.batch.plan.warnings import spec_warnings
from migrate.batch.preflight.check import Check, CheckReport, failed, observe
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.preflight.doctor import not_run
from migrate.batch.preflight.places import bytes_to_copy, space_needed
from migrate.batch.preflight.retry import T, with_retries
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.source.snapshot import has_snapshot
from migrate.batch.status.run_report import already_migrated
from migrate.dry_run.cost import Bill, cost_of
from migrate.dry_run.reading import Options, Reading
from migrate.dry_run.report import Cost, DryRunReport, Found, Tried
from migrate.dry_run.summary import found_of, segmentations, tried_of
from migrate.dry_run.verdict import checks_of_the_trial, verdict_of
from migrate.errors import MigrationError, SpecError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.plan import DatabasePlan
from migrate.spec.allowed import changelog_note
from migrate.spec.function.fingerprint import checked_code, tracking_imports
from migrate.spec.spec import Spec
from migrate.stores.files import existing_parent

SAMPLE = 10_000
_NEEDED_TO_READ = ("source.found", "source.files", "source.comparator", "source.tables", "source.format")


@system_errors_explained()
def plan(
    spec: Spec,
    *,
    full: bool = False,
    sample: int = SAMPLE,
    seed: int = 0,
    slots: int | None = None,
    on_event: Listener = ignore,
    changelog_ends: ChangelogEnds | None = None,
) -> DryRunReport:
    """What `run` would do. Opens nothing for writing, leaves nothing behind, and needs no JVM.

    `full` converts every record; else `sample` records of each store partition are, chosen by `seed`. `slots`: chunks
    at a time, for the estimate of time. Raises SpecError alone: whatever else is wrong is part of the report.
    """
    if sample < 1 or (slots is not None and slots < 1):
        raise SpecError("a sample, and the number of slots, is at least 1", hint="leave it out, or name a larger one")
    context = make_context(spec, on_event, changelog_ends=changelog_ends)
    return _DryRun(context, Options(sample, seed, full, slots)).report()


class _DryRun:
    """One look at one spec."""

    def __init__(self, context: Context, options: Options) -> None:
        self._started = time.monotonic()
        self._context = context
        self._spec = context.spec
        self._options = options
        self._preflight = Preflight(context, "plan")
        self._checks: list[CheckReport] = []

    @cached_property
    def _standing(self) -> Standing:
        return read_standing(self._context.home)

    def report(self) -> DryRunReport:
        finished = self._finished()
        reading = None
        if finished is None:
            self._checks += self._preflight.observe()
            with tracking_imports(self._context.ref):
                reading = self._read()
        found = tried = cost = None
        if reading is not None:
            self._checks += reading.failures
            self._checks += observe(self._checks_of_the_function())
            found = found_of(reading)
            tried = tried_of(reading, found, self._context.conversion, self._options.seed)
            self._checks += checks_of_the_trial(self._spec, tried, found.records, reading.rejects)
            cost = self._look_again(lambda: self._cost(reading, found))
        if finished is None:
            self._checks += not_run("needs a JVM: stateferry doctor SPEC")
        return self._put_together(finished, found, tried, cost)

    def _checks_of_the_function(self) -> tuple[Check, ...]:
        """Once it was called."""
        ref = self._context.ref
        if ref.function is None:
            return ()
        claim = "the function loads only modules that import statements or [conversion] files name"
        return (Check("conversion.code", claim, lambda: ", ".join(checked_code(ref))),)

    def _put_together(
        self, finished: str | None, found: Found | None, tried: Tried | None, cost: Cost | None
    ) -> DryRunReport:
        spec = self._spec
        return DryRunReport(
            name=spec.name,
            source_format=spec.source.format,
            target_format=spec.target.format,
            source=spec.source_path,
            target=spec.target_path,
            stores=spec.source.store_names,
            work_dir=spec.home,
            tool_version=tool_version(),
            made_at_ms=int(time.time() * 1000),
            seconds=round(time.monotonic() - self._started, 3),
            is_estimate=self._preflight.is_in_use,
            state=self._state(),
            found=found,
            tried=tried,
            segments=() if found is None else tuple(segmentations(spec, self._preflight.source, self._databases)),
            cost=cost,
            changelog=self._changelog(),
            warnings=self._warnings(),
            checks=tuple(self._checks),
            verdict=verdict_of(self._checks, finished=finished, next_step=self._next_step(), tried=tried),
        )

    def _look_again(self, look: Callable[[], T]) -> T:
        return with_retries(look, is_in_use=self._preflight.is_in_use)

    def _changelog(self) -> str:
        conversion = self._context.conversion
        if conversion.changes_changelog and "changelog" not in self._spec.conversion.allow:
            return "the changelog would no longer match the store: a restore would bring the old records back"
        return changelog_note(conversion)

    def _finished(self) -> str | None:
        """What an earlier run did, where nothing is left to do."""
        if not is_usable(self._context.home):
            return None
        try:
            done = already_migrated(self._context, self._standing)
        except MigrationError as error:
            self._checks.append(failed("migration.whole", "no step of this migration is half done", error))
            return None
        return None if done is None else done.next_step

    def _read(self) -> Reading | None:
        outcomes = {check.name: check.outcome for check in self._checks}
        if any(outcomes.get(name) != "ok" for name in _NEEDED_TO_READ):
            return None
        preflight = self._preflight
        self._context.notify("dry-run.started", is_full=self._options.is_full)
        reading = Reading(
            self._context, preflight.source, self._databases, self._options, is_running=preflight.is_in_use
        )
        return reading.read()

    @cached_property
    def _databases(self) -> tuple[DatabasePlan, ...]:
        """Where a stored plan serves, the preflight makes none."""
        spec, source = self._spec, self._preflight.source
        return self._preflight.databases or self._look_again(
            lambda: plan_databases(spec, source, self._context.conversion)
        )

    def _cost(self, reading: Reading, found: Found) -> Cost:
        spec, stored = self._spec, self._preflight.stored
        chunks, done = reading.chunks, 0
        if stored is not None:
            receipts = under_reject_policy(self._standing.receipts, spec.run.on_reject)
            cut = stored if stored.chunk_size == spec.run.chunk_size else None
            plan = cut or stored.model_copy(update={"chunks": tuple(reading.chunks)})  # a run would cut it anew
            chunks, done = pending_chunks(plan, receipts), len(receipts)
        copied = 0 if self._preflight.is_snapshot_current else bytes_to_copy(spec, self._preflight.source)
        return cost_of(
            Bill(
                spec=spec,
                chunks=chunks,
                chunks_done=done,
                found=found,
                is_moved=any(plan.times is not None for plan in self._databases),
                measured=reading.measured,
                slots=self._options.slots or os.cpu_count() or 1,
                copied_bytes=copied,
                required_bytes=space_needed(self._databases, copied_bytes=copied),
                free_bytes=shutil.disk_usage(existing_parent(spec.home)).free,
            )
        )

    def _state(self) -> str:
        try:
            return self._standing.state
        except MigrationError:
            return "damaged"

    def _warnings(self) -> tuple[str, ...]:
        try:
            found = self._look_again(self._preflight.source.warnings)
            return (*found, *spec_warnings(self._context.spec, self._context.ref))
        except (MigrationError, OSError):
            return ()

    def _next_step(self) -> str:
        is_snapshot = self._spec.run.source == "snapshot"
        begin = "" if is_snapshot else "stop the application, "
        if is_snapshot and not has_snapshot(self._spec):
            begin = "stop the application, stateferry snapshot SPEC, start it again, "
        stop = "stop the application, " if is_snapshot else ""
        end = f", {stop}stateferry cutover SPEC" if self._spec.target_path is None else ""
        return f"{begin}stateferry run SPEC{end}"


def tool_version() -> str:
    """As it was installed."""
    try:
        return version("stateferry")
    except PackageNotFoundError:
        return "of a source tree"
