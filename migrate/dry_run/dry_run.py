"""`plan`: report what a run of a spec would do, read-only."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import cached_property, partial

from migrate.batch.changelog.take_key_times import SampledTimes
from migrate.batch.context import Context
from migrate.batch.home import is_usable
from migrate.batch.ledger.receipts_in_force import pending_chunks
from migrate.batch.plan.key_order import may_change_keys
from migrate.batch.plan.make_plan import plan_databases, spec_warnings
from migrate.batch.plan.repartition import of_old_partitions
from migrate.batch.preflight.check import Check, CheckReport, Outcome, T, failed, observe, with_retries
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.preflight.directories import bytes_to_copy, space_needed
from migrate.batch.preflight.doctor import not_run
from migrate.batch.source.changelog_ends import ChangelogEnds, restored_from
from migrate.batch.source.restored_source import import_record, imported_table
from migrate.batch.source.snapshot import has_snapshot
from migrate.batch.source.source import target_system
from migrate.batch.status.run_report import already_migrated
from migrate.batch.status.status import status_of
from migrate.dry_run.changelog_plan import changelog_plan, message_check, retention_checks, subject_checks
from migrate.dry_run.dry_run_report import (
    ChangelogPlan,
    Cost,
    DryRunReport,
    PartitionsPlan,
    Segmentation,
    SegmentPlanned,
    SortingPlan,
)
from migrate.dry_run.estimate import SORTING, SQL_START, Load, chunk_size_warning, cost_of, typical
from migrate.dry_run.partition_steps import partitions_plan
from migrate.dry_run.source_reader import Options, SourceReader
from migrate.dry_run.verdict import NEEDED_TO_READ, conversion_checks, make_verdict
from migrate.errors import MigrationError, SpecError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.key_range import KeyRange
from migrate.model.packages import VERSION
from migrate.model.plan import Chunk, DatabasePlan
from migrate.model.reports import ImportedTable
from migrate.model.restored import ImportRecord
from migrate.spec.allowed import CHANGELOG
from migrate.spec.changelog_way import changelog_note, is_undecided, takes_times, way_of
from migrate.spec.fingerprint import checked_code, tracking_imports
from migrate.spec.spec import Spec
from migrate.stores.files import existing_parent

SAMPLE = 10_000
_NO_CHANGELOG = "the files name no changelog: is logging disabled? where there is one"


@system_errors_explained()
def plan(
    spec: Spec,
    *,
    full: bool = False,
    sample: int | None = None,
    seed: int = 0,
    slots: int | None = None,
    on_event: Listener = ignore,
    changelog_ends: ChangelogEnds | None = None,
) -> DryRunReport:
    """Report what `run` would do. Opens no file for writing, leaves no files behind, and needs no JVM.

    The application may be running. `report.verdict` says whether a run would start, and what to do first.

    Args:
        spec: the migration, from `load_spec` or built in code.
        full: read and convert every record, for exact counts.
        sample: records of each store partition to convert, spread over its keys; at least 1. None: all records where
            that takes less than 10 seconds, and else a sample of 10,000.
        seed: chooses the sample.
        slots: chunks at a time, for the estimate of time; None: the cores of this machine.
        on_event: called with each `Event`, before the work goes on.
        changelog_ends: by `<topic>-<partition>`, the offset after the last record that a consumer can read, where that
            has to be confirmed.

    Raises:
        SpecError: an argument is out of range, or the spec's function cannot be imported. Any other problem is part of
            the report.
    """
    if (sample is not None and sample < 1) or (slots is not None and slots < 1):
        raise SpecError("the sample size and the number of slots must be at least 1", hint="raise it, or leave it out")
    context = Context(spec, on_event, changelog_ends=changelog_ends or {}).loaded()
    slots = slots or os.cpu_count() or 1
    options = Options(sample or SAMPLE, seed, is_full=full, is_sample=sample is not None, slots=slots)
    return _DryRun(context, options).report()


class _DryRun:
    """A dry run of one spec."""

    def __init__(self, context: Context, options: Options) -> None:
        self._started = time.monotonic()
        self._context = context
        self._spec = context.spec
        self._options = options
        self._preflight = Preflight(context, "plan")
        self._checks: list[CheckReport] = []

    def report(self) -> DryRunReport:
        finished, reader = self._already_migrated(), None
        if finished is None:
            self._checks += self._preflight.observe()
            with tracking_imports(self._context.ref):
                reader = self._read()
            if reader is not None:
                self._checks += [*self._failures(reader), *observe(self._function_checks())]
                is_said = any(check.name == "source.records" for check in reader.failures)
                records, tally = reader.found.records, reader.tally
                is_sorted = bool(self._why_sorted)
                self._checks += conversion_checks(
                    self._spec, reader.tried, records, tally, is_said=is_said, is_sorted=is_sorted
                )
            self._checks += not_run("needs a JVM: stateferry doctor SPEC")
        return self._put_together(finished, reader)

    def _failures(self, reader: SourceReader) -> Iterator[CheckReport]:
        """What failed in reading; not once more that no record can be converted, where that is refused for all."""
        for check in reader.failures:
            is_said = check.name == "source.records" and self._is_refused_for_all()
            name, claim, detail = check.name, check.claim, "needs conversion.allowed"
            yield CheckReport(name=name, claim=claim, outcome="not run", detail=detail) if is_said else check

    def _is_refused_for_all(self) -> bool:
        """Whether no old payload can become a new one by itself."""
        ref = self._context.ref
        changes = [each for each in (ref.key, ref.value) if each is not None]
        if ref.function is not None or not changes:
            return False
        from formats.serdes.conversions import payload_problem  # loads Avro

        return any(payload_problem(each.source, each.target) for each in changes)

    def _function_checks(self) -> tuple[Check, ...]:
        """The checks that are possible once the function was called."""
        ref = self._context.ref
        if ref.function is None:
            return ()
        claim = "the function loads only modules that import statements or [conversion] files name"
        return (Check("conversion.code", claim, lambda: ", ".join(checked_code(ref))),)

    def _put_together(self, finished: str | None, reader: SourceReader | None) -> DryRunReport:
        spec, found, tried, changelogs, cost, warning = self._spec, None, None, None, None, None
        if reader is not None:
            if not spec.source.rows:
                found, tried = reader.found, reader.tried
            changelogs = self._changelogs(reader)
            cost, warning = self._retry(partial(self._cost, reader, changelogs))
        return DryRunReport(
            name=spec.name,
            source_format=spec.source.format,
            target_format=spec.target.format,
            source=spec.source_path,
            target=spec.target_path,
            stores=spec.source.store_names,
            work_dir=spec.home,
            tool_version=VERSION,
            made_at_ms=int(time.time() * 1000),
            seconds=round(time.monotonic() - self._started, 3),
            is_estimate=self._preflight.is_in_use,
            state=self._state(),
            imported=self._imported(),
            found=found,
            tried=tried,
            segments=() if found is None or not spec.has_segments else tuple(self._segmentations()),
            cost=cost,
            engine=self._preflight.engine_found(self._checks),
            changelog=self._changelog(),
            changelogs=changelogs,
            partitions=self._partitions(),
            sorting=None if cost is None else self._sorting(cost),
            warnings=(*self._warnings(), *([] if warning is None else [warning])),
            checks=tuple(self._checks),
            verdict=make_verdict(self._checks, finished=finished, next_step=self._next_step(), tried=tried),
        )

    def _imported(self) -> ImportedTable | None:
        try:
            return imported_table(self._spec)
        except MigrationError:  # a check says that the record is damaged
            return ImportedTable()

    def _segmentations(self) -> Iterator[Segmentation]:
        source, target = self._preflight.source, target_system(self._spec)
        for partition in source.partitions:
            new = [plan for plan in self._databases if plan.store_partition == partition.id]
            expired = [plan.times for plan in new if not plan.is_kept and plan.times is not None]
            yield Segmentation(
                store_partition=partition.id,
                old=tuple(segment.name for segment in source.system.segments.of(source.path, partition)),
                new=tuple(
                    SegmentPlanned(
                        name=plan.database,
                        start_ms=target.segments.start(partition.store, plan.database),
                        made_of=tuple(each.database for each in plan.sources),
                    )
                    for plan in new
                    if plan.is_kept
                ),
                expired_before_ms=expired[0].end_ms if expired else None,
            )

    def _retry(self, read: Callable[[], T]) -> T:
        return with_retries(read, is_in_use=self._preflight.is_in_use)

    def _changelog(self) -> str:
        spec, conversion = self._spec, self._context.conversion
        is_left = conversion.changes_changelog and way_of(spec, conversion) == "none"
        note = changelog_note(spec, conversion)
        if is_undecided(spec, conversion) or (is_left and CHANGELOG not in spec.conversion.allow):
            note = "the changelog would no longer match the store: a restore would bring the old records back"
        if spec.changelog is None and conversion.source.has_changelog and self._names_no_changelog():
            source = self._preflight.source
            inputs = next(filter(None, (restored_from(source, each) for each in source.partitions)), None)
            known = f"{inputs}; where a table is restored from it" if inputs else _NO_CHANGELOG
            return f"{known}, {note}"
        return note

    def _names_no_changelog(self) -> bool:
        if self._outcome("source.files") != "ok" or not self._spec.source.store_names:
            return False
        source = self._preflight.source
        return not any(self._retry(partial(source.changelog_lines, each)) for each in source.partitions)

    def _changelogs(self, reader: SourceReader) -> ChangelogPlan | None:
        """The plan for the changelogs, with its checks; None: no topic of them is known, or nothing says their way."""
        if self._outcome("changelog.topic") != "ok" or is_undecided(self._spec, self._context.conversion):
            return None
        at_broker = self._preflight.at_broker
        plan = changelog_plan(at_broker, reader.found, self._options.slots)
        self._checks += subject_checks(at_broker)
        if plan.way != "none" and not self._spec.source.rows:  # of which no row is read here
            self._checks.append(message_check(at_broker, reader.tried))
            self._checks += retention_checks(at_broker, reader.logged_times, reader.found.records)
        return plan

    def _partitions(self) -> PartitionsPlan | None:
        if self._outcome("partitions.tasks") not in ("ok", "warning"):
            return None
        is_rekeyed = may_change_keys(self._context.conversion)
        if self._outcome("changelog.topic") != "ok":
            return partitions_plan(self._spec, self._preflight.source, None, is_rekeyed=is_rekeyed)
        with closing(self._preflight.at_broker) as at_broker:
            return partitions_plan(self._spec, self._preflight.source, at_broker, is_rekeyed=is_rekeyed)

    @cached_property
    def _why_sorted(self) -> str:
        """Why a run sorts the new keys; empty: it does not, or a check tells why that is not known."""
        try:
            return self._preflight.why_sorted
        except (MigrationError, OSError):
            return ""

    def _sorting(self, cost: Cost) -> SortingPlan | None:
        if not self._why_sorted:
            return None
        left = sum(chunk.estimated_bytes for chunk in cost.chunks)
        return SortingPlan(
            why=self._why_sorted,
            bytes=left,
            wave_size=self._spec.run.wave_size,
            waves=self._waves(left),
            times_slower=SORTING,
            start_seconds=SQL_START,
        )

    def _waves(self, size: int) -> int:
        return max(1, -(-size // self._spec.run.wave_size)) if self._why_sorted else 0

    def _already_migrated(self) -> str | None:
        """The result of an earlier run that leaves nothing to do; None: there is something to do."""
        if not is_usable(self._context.home):
            return None
        try:
            done = already_migrated(self._context)
        except MigrationError as error:
            self._checks.append(failed("migration.whole", "no step of this migration is half done", error))
            return None
        return None if done is None else done.next_step

    def _outcome(self, name: str) -> Outcome | None:
        return next((check.outcome for check in self._checks if check.name == name), None)

    def _read(self) -> SourceReader | None:
        if any(self._outcome(name) != "ok" for name in NEEDED_TO_READ):
            return None
        preflight = self._preflight
        self._context.notify("dry-run.started", is_full=self._options.is_full)
        with ExitStack() as opened:
            times = None
            if takes_times(self._spec, self._context.conversion) and self._outcome("changelog.topic") == "ok":
                whole = self._options.is_full
                sampled = SampledTimes(self._spec, self._context.conversion, preflight.source, every=whole)
                times = opened.enter_context(sampled)
            is_asked = self._outcome("conversion.places") in ("ok", "warning")  # of some stores nobody may know it
            places = preflight.key_places.of_partitions if is_asked else ()
            reader = SourceReader(
                self._context,
                preflight.source,
                self._databases,
                self._options,
                times,
                key_places=places,
                is_running=preflight.is_in_use,
                is_sorted=bool(self._why_sorted),
            )
            return reader.read()

    @cached_property
    def _databases(self) -> tuple[DatabasePlan, ...]:
        """The preflight plans the directories, except where it finds a stored plan; each as what is read for it."""
        make = partial(plan_databases, self._spec, self._preflight.source, self._context.conversion)
        return of_old_partitions(self._preflight.databases or self._retry(make))

    def _left(self, chunks: Sequence[Chunk]) -> tuple[Sequence[Chunk], int]:
        """Of the chunks that a new run would cut: those that are left, and how many earlier runs have done."""
        stored = self._preflight.stored
        if stored is None:
            return chunks, 0
        receipts = self._context.receipts
        is_cut = not self._preflight.is_cut_otherwise or self._spec.target.partitions is not None
        plan = stored if is_cut else stored.model_copy(update={"chunks": tuple(chunks)})  # a run would cut it again
        return pending_chunks(plan, receipts), len(receipts)

    def _cost(self, reader: SourceReader, changelogs: ChangelogPlan | None) -> tuple[Cost, str | None]:
        """The cost of a run, and a warning about its chunk size."""
        spec, found, record = self._spec, reader.found, import_record(self._spec)
        chunks, done = self._left(reader.chunks if record is None else [*self._of_rows(record)])
        records, size = (found.records, found.record_bytes) if record is None else (record.rows, record.row_bytes)
        piece = reader.piece or typical(max(1, size // max(1, records)))
        copied = 0 if self._preflight.is_snapshot_current else bytes_to_copy(spec, self._preflight.source)
        sizes = tuple(chunk.estimated_bytes for chunk in chunks)
        load = Load(
            # Records in the write-ahead log alone are in no chunk's size.
            store_bytes=max(sum(sizes), 0 if done else piece.bytes_of(found.records)),
            piece=piece,
            slots=self._options.slots,
            chunk_size=int(spec.run.chunk_size),
            store_partitions=found.store_partitions,
            ssts=sum(database.sst_files for database in found.databases),
            verify=spec.run.verify,
            chunk_sizes=sizes,
            copied_bytes=copied,
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            waves=self._waves(sum(sizes)),
        )
        is_moved = any(plan.times is not None for plan in self._databases)
        cost = cost_of(
            spec,
            load,
            chunks,
            found,
            changelogs,
            chunks_done=done,
            # Where records move, each chunk reads all segments that it takes records from.
            new_store_bytes=piece.bytes_of(found.records - found.expired)
            if is_moved and not done
            else load.store_bytes,
            required_bytes=space_needed(self._databases, copied_bytes=copied),
            free_bytes=shutil.disk_usage(existing_parent(spec.home)).free,
        )
        if record is not None:  # files of rows take about what those of records do
            cost = cost.model_copy(update={"new_bytes": record.size, "peak_bytes": record.size})
        return cost, chunk_size_warning(load)

    def _of_rows(self, record: ImportRecord) -> Iterator[Chunk]:
        """About the ranges of new keys that a run would cut."""
        each = record.row_bytes // len(self._databases)
        count = max(1, -(-each // self._spec.run.chunk_size))
        for plan in self._databases:
            for number in range(count):
                yield Chunk(
                    store_partition=plan.store_partition,
                    database=plan.database,
                    number=number,
                    keys=KeyRange(),
                    estimated_bytes=each // count,
                )

    def _state(self) -> str:
        try:
            return self._context.standing.state
        except MigrationError:
            return "damaged"

    def _warnings(self) -> tuple[str, ...]:
        if self._spec.source.rows:
            return ()
        try:
            return (
                *self._retry(self._preflight.source.warnings),
                *spec_warnings(self._context.spec, self._context.ref),
            )
        except (MigrationError, OSError):
            return ()

    def _next_step(self) -> str:
        if self._state() not in ("not started", "snapshot taken", "rewriting", "damaged"):
            return status_of(self._spec, self._context.standing).next_step
        is_snapshot = self._spec.run.source == "snapshot"
        before = "" if is_snapshot else "stop the application, "
        if is_snapshot and not has_snapshot(self._spec):
            before = "stop the application, stateferry snapshot SPEC, start it again, "
        stop = "stop the application, " if is_snapshot else ""
        stop += "stateferry catch-up SPEC, " if self._preflight.needs_catch_up else ""
        after = f", {stop}stateferry cutover SPEC" if self._spec.target_path is None else ""
        return f"{before}stateferry run SPEC{after}"
