"""The reports of `init` and of a migration as text: its run, state, verification, changelogs, switch and history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.dry_run.dry_run_report import ChangelogPlan
from migrate.model.comparison import Totals, Verification
from migrate.model.display import duration, moment, plural, rate, share, size
from migrate.model.exports import ExportReport
from migrate.model.preview import RejectReason, shown_key
from migrate.model.reports import (
    AbandonReport,
    Behind,
    CatchUpReport,
    ChangelogReport,
    Column,
    Concern,
    Held,
    RejectsReport,
    RunReport,
    SetBack,
    SnapshotReport,
    StandingReport,
    StatusReport,
    SweepReport,
    SwitchReport,
    TailReport,
    Throughput,
    Verifying,
    VerifyReport,
)
from migrate.model.run_history import ChunkDone, RunHistory
from migrate.show.output import Output
from migrate.show.plain import ATTENTION, Layout

if TYPE_CHECKING:
    from migrate.survey.init_spec import InitReport


_MOST_STEPS = 12


def show_init(report: InitReport, _output: Output) -> list[str]:
    """The stores that the new spec is for, and where it was written."""
    store = f"store {report.store} of {report.source}" if report.store else str(report.source)
    partitions = plural(len(report.store_partitions), "store partition")
    return [
        f"found: {store}: about {plural(report.records, 'record')} in {partitions}",
        f"from:  {report.source_format}",
        f"to:    {report.target_format}",
        *([f"note: {report.note}"] if report.note else []),
        *(f"warning: {warning}" for warning in report.warnings),
        *(f'allow: a run is refused unless [conversion] allow has "{name}"' for name in report.must_be_allowed),
        f"wrote: {report.spec}",
        f"next: {report.next_step}",
    ]


def show_run(report: RunReport, output: Output) -> list[str]:
    """What a run did, and where its result is."""
    rows = {
        "migration": f"{report.name}: {report.source_format} -> {report.target_format}",
        **_origin(report, f"{report.source} ({plural(report.store_partitions, 'store partition')})"),
        "chunks": f"{report.totals.chunks} of {report.chunks_planned}"
        + (f", {report.chunks_done_before} of them by earlier runs" if report.chunks_done_before else ""),
        **facts_of_totals(report.totals),
        "throughput": throughput_in_words(report.throughput),
        "engine": "" if report.engine is None else str(report.engine),
        "phases": ", ".join(f"{name} {spent:,.2f} s" for name, spent in report.seconds.items()),
        "verification": verification_in_words(report.verification),
        ATTENTION: concerns_in_words(report.concerns),
        "dead letters": dead_letters_in_words(report.dead_letters, report.dead_letter_columns),
        "result": str(report.published or "\n".join(map(str, report.new_stores))),
        "changelog": changelogs_in_words(report.changelogs) or report.changelog,
        "partitions": held_elsewhere(report.held),
        "warnings": "\n".join(report.warnings),
        "next": report.next_step,
    }
    return output.layout.facts(rows | _ids(report.migration_id, f"run {report.run_id}", output))


def show_status(report: StatusReport, output: Output) -> list[str]:
    """The state of a migration."""
    return output.layout.facts(status_facts(report, output))


def status_facts(report: StatusReport, output: Output) -> dict[str, str]:
    """The state of a migration as labelled facts."""
    rows = {"migration": report.name, **_origin(report, ""), "state": report.state}
    if report.migration_id is not None:
        rows |= {
            "chunks": f"{_chunks(report)} ({share(report.share_done)})",
            **facts_of_totals(report.totals),
            "throughput": throughput_in_words(report.throughput),
            "runs": str(report.runs),
            "function": revision_in_words(report.revision),
            "last commit": "" if report.last_commit_ms is None else moment(report.last_commit_ms),
            **_verification(report),
            "rejects": rejects_in_words(report.rejects),
            "changelog": changelogs_in_words(report.changelogs),
            "partitions": held_elsewhere(report.held),
            "tail": behind_in_words(report.behind),
            "published": "" if report.published is None else str(report.published),
        }
    rows["next"] = report.next_step
    return rows | _ids(report.migration_id, f"plan revision {report.plan_revision}", output)


def _origin(report: StandingReport, source: str) -> dict[str, str]:
    return {"source": source} if report.imported is None else {"rows": str(report.imported)}


def _chunks(report: StatusReport | RunHistory) -> str:
    return f"{report.chunks_planned - report.chunks_left} of {report.chunks_planned}"


def _verification(report: StatusReport | RunHistory) -> dict[str, str]:
    return {
        "verification": "not yet" if report.verification is None else verification_in_words(report.verification),
        "verifying": "" if report.verifying is None else verifying_in_words(report.verifying),
        ATTENTION: concerns_in_words(report.concerns),
    }


def show_rejects(report: RejectsReport, output: Output) -> list[str]:
    """The rejected records by reason."""
    rows = {
        "migration": report.name,
        "state": report.state,
        "rejected": f"{plural(report.rejected, 'record')} of {report.records_in:,}" if report.rejected else "",
        "reasons": rejects_in_words(report.rejects),
        "dead letters": "" if report.dead_letters is None else str(report.dead_letters),
        "next": report.next_step,
    }
    return output.layout.facts(rows | _ids(report.migration_id, "", output))


def show_export(report: ExportReport, output: Output) -> list[str]:
    """What an export wrote, and where it can be read."""
    which = "the snapshot" if report.side == "snapshot" else f"the {report.side} store"
    kept = f", {report.kept_ranges} of them by an interrupted export" if report.kept_ranges else ""
    rows = {
        "store": f"{report.store} ({which})",
        "table": str(report.table),
        "version": str(report.version),
        "columns": ", ".join(f"{column.name} {column.type}" for column in report.columns),
        "rows": f"{report.records:,}, in {plural(report.files, 'file')} ({size(report.size)})",
        "ranges": f"{report.ranges:,}{kept}",
        "time": duration(report.seconds),
    }
    return output.layout.facts(rows)


def show_sweep(report: SweepReport, output: Output) -> list[str]:
    """What a slice of a sweep did, and what comes next."""
    watermark = (
        ""
        if report.watermark_ms is None
        else f"{moment(report.watermark_ms)}: a marker of that time or an earlier one is dropped as late; one that is "
        "later by more than the watermark's delay moves the watermark, which drops rows and fires timers"
    )
    run = "run the query until it has read the markers, stop it, and sweep again"
    done = f"no key has {report.variable}: let `init` call deleteIfExists({report.variable!r}), with a plain handle"
    stuck = (
        "look whether markers are late, not parsed, of another key (the time zone of a timestamp, a partition's "
        "directory) or not matched by the source's pattern of names, or whether values are in quarantine"
    )
    if report.unread is None:
        done += ", and go on to filter markers: the topic may have some that the query has not read"
    rows = {
        "variable": report.variable,
        "old keys": f"{report.old_keys:,} after batch {report.batch}",
        "unfinished": ""
        if report.unfinished is None
        else f"batch {report.unfinished} was begun and not committed: see that the query is stopped",
        "warning": f"{report.variable} came with the newest variables: see that the old code used that name"
        if report.is_newest
        else "",
        "written": f"{plural(report.written, 'marker')} to {report.to}" if report.written else "",
        "unread": f"{plural(report.unread, 'file')} with markers in {report.to}" if report.unread else "",
        "watermark": watermark if report.written else "",
        "if it stays": stuck if report.old_keys or report.unread else "",
        "next": run if report.old_keys or report.unread else done,
    }
    return output.layout.facts(rows)


def revision_in_words(revision: int) -> str:
    """How often the function was replaced; empty: it is the first one."""
    return f"replaced {plural(revision, 'time')} by a replay" if revision else ""


def rejects_in_words(reasons: tuple[RejectReason, ...]) -> str:
    """Each reason with its number of records, the place in the function, and the first example."""
    return "\n".join(line for reason in reasons for line in _reason(reason))


def _reason(reason: RejectReason) -> Iterator[str]:
    count = "the run stopped here" if reason.ended_run else plural(reason.records, "record")
    yield f"{count}: {reason.reason}"
    if reason.place:
        yield f"  at {reason.place}"
    for example in reason.examples[:1]:
        chunk = "" if example.chunk is None else f" chunk {example.chunk}"
        where = f"{example.store_partition}{chunk}, column family {example.family!r}"
        yield f"  for example the key {shown_key(example.key)} in {where}"
        if example.reason != reason.reason:
            yield f"  where {example.reason}"


def show_switch(report: SwitchReport, output: Output) -> list[str]:
    """The stores after a cut-over, a rollback or `finalize`."""
    return output.layout.facts(
        {
            "migration": report.name,
            "state": report.state,
            "stores": "\n".join(map(str, report.stores)),
            "old stores": "" if report.old_stores is None else str(report.old_stores),
            ATTENTION: concerns_in_words(report.concerns),
            "not found": "\n".join(report.moved_away),
            "other files": "\n".join(map(str, report.left_over)),
            "changelog": report.changelog,
            "topics": "\n".join(report.topics),
            "deleted topics": "\n".join(report.removed_topics),
            "read again": "\n".join(read_again(report.set_back)),
            "warnings": "\n".join(report.warnings),
            "next": report.next_step,
        }
    )


def show_snapshot(report: SnapshotReport, output: Output) -> list[str]:
    """The snapshot that was taken."""
    return output.layout.facts(
        {
            "migration": report.name,
            "snapshot": f"{report.snapshot} ({plural(report.store_partitions, 'store partition')})",
            "taken": moment(report.taken_at_ms),
            "warnings": "\n".join(report.warnings),
            "next": report.next_step,
        }
    )


def show_abandon(report: AbandonReport, output: Output) -> list[str]:
    """What `abandon` removed, and what it left."""
    removed = "nothing: the folder did not exist" if report.removed is None else str(report.removed)
    left = "\n".join(map(str, report.left_over))
    rows = {"migration": report.name, "removed": removed, "other files": left, "unchanged": str(report.source)}
    rows["deleted topics"] = "\n".join(report.removed_topics)
    rows["topics that other hosts use"] = "\n".join(report.kept_topics)
    rows["old values again in"] = "\n".join(report.undone_topics)
    return output.layout.facts(rows)


def show_verify(report: VerifyReport, output: Output) -> list[str]:
    """The result of a verification."""
    stores = "\n".join(map(str, report.stores))
    rows = {"migration": report.name, "verification": verification_in_words(report.verification), "stores": stores}
    rows["changelog"] = changelogs_in_words(report.changelogs)
    rows |= {ATTENTION: concerns_in_words(report.concerns), "next": report.next_step}
    return output.layout.facts(rows | _ids(report.migration_id, "", output))


def show_catch_up(report: CatchUpReport, output: Output) -> list[str]:
    """What a catch-up has read and applied to the new stores."""
    rows = {"migration": report.name, "catch-up": f"{report.what}, in {report.seconds:.1f} s"}
    rows |= {"tails": "\n".join(map(tail_in_words, report.tails)), "application": report.application}
    rows |= {ATTENTION: concerns_in_words(report.concerns), "next": report.next_step}
    return output.layout.facts(rows | _ids(report.migration_id, "", output))


def _ids(migration_id: str | None, more: str, output: Output) -> dict[str, str]:
    """Identifiers for troubleshooting, with --verbose."""
    ids = ", ".join(filter(None, (migration_id, more)))
    return {"identity": ids} if output.verbosity and migration_id is not None else {}


def facts_of_totals(totals: Totals) -> dict[str, str]:
    """The numbers of records and bytes."""
    skipped = [f"{totals.dropped:,} dropped by the function"] if totals.dropped else []
    skipped += [f"{totals.not_carried:,} not carried by the new format"] if totals.not_carried else []
    skipped += [f"{totals.expired:,} older than the new retention"] if totals.expired else []
    skipped += [f"{totals.shadowed:,} replaced since by the upgrade in progress"] if totals.shadowed else []
    skipped += [f"{totals.rejected:,} rejected"] if totals.rejected else []
    records = f"{totals.records_in:,} read, {totals.records_out:,} written"
    return {
        "records": ", ".join([records, *skipped]),
        "bytes": f"{totals.bytes_in:,} read, {totals.bytes_out:,} written",
    }


def throughput_in_words(found: tuple[Throughput, ...]) -> str:
    """The speed of each phase, with the records and the time that it is computed from."""
    return "\n".join(
        f"{each.phase} {rate(each.records_per_second)}: {plural(each.records, 'record')} in {duration(each.seconds)}"
        for each in found
    )


def verification_in_words(found: Verification) -> str:
    """How the new stores were compared, and with what result."""
    if found.mode == "off":
        return 'off: [run] verify = "off"'
    if found.ok:
        before = f" ({found.records_before:,} of them before an interruption)" if found.records_before else ""
        dropped = f"; {found.dropped:,} dropped by the function" if found.dropped else ""
        return f"{found.mode}: {plural(found.records, 'record')} equal{before}{dropped}, in {found.seconds:,.2f} s"
    return f"{found.mode}: {found.missing:,} missing, {found.differing:,} differing, {found.extra:,} extra"


def verifying_in_words(found: Verifying) -> str:
    """How far a verification is that has not ended."""
    facts = [f"{share(found.share_done)}: {found.records:,} of {plural(found.records_expected, 'record')}"]
    if found.records_per_second is not None and found.seconds_left is not None:
        facts += [rate(found.records_per_second), f"{duration(found.seconds_left)} left"]
    return ", ".join(facts)


def concerns_in_words(concerns: tuple[Concern, ...]) -> str:
    """The reasons against going live, each with what accepted it; with what to do where the next step lacks it."""
    return "\n".join(map(_concern, concerns))


def _concern(concern: Concern) -> str:
    if concern.accepted:
        return f"{concern.sentence} (accepted: {concern.accepted})"
    return concern.sentence if concern.holds_back else f"{concern.sentence}: {concern.fix}"


def dead_letters_in_words(folder: Path | None, columns: tuple[Column, ...]) -> str:
    """The folder of the rejected records, and the columns of their table."""
    if folder is None:
        return ""
    return f"{folder}\na Delta table: {', '.join(f'{column.name} {column.type}' for column in columns)}"


def engines_in_words(chunks: Iterable[ChunkDone]) -> str:
    """How many chunks each engine has rewritten."""
    counts = Counter(chunk.engine for chunk in chunks)
    return ", ".join(f"{name}: {plural(count, 'chunk')}" for name, count in counts.most_common())


def show_history(history: RunHistory, output: Output) -> list[str]:
    """What a migration has done, its state, and a table of its runs."""
    facts = {
        "migration": f"{history.name}: {history.source_format} -> {history.target_format}",
        **_origin(history, str(history.source)),
        "state": history.state,
    }
    if history.migration_id is not None:
        facts |= {
            "chunks": _chunks(history),
            **facts_of_totals(history.totals),
            "throughput": throughput_in_words(history.throughput),
            "engine": engines_in_words(history.chunks),
            "function": revision_in_words(history.revision),
            "slowest": _slowest(history),
            **_verification(history),
            "published": "" if history.published is None else str(history.published),
            "new stores": "\n".join(map(str, history.new_stores)),
            "steps": _steps(history),
            "rejects": rejects_in_words(history.rejects),
            "dead letters": dead_letters_in_words(history.dead_letters, history.dead_letter_columns),
        }
    changelog = history.changelog if history.migration_id is not None else ""
    changelog = "\n".join(filter(None, (changelog, changelogs_in_words(history.changelogs))))
    rest = {"changelog": changelog, "warnings": "\n".join(history.warnings), "next": history.next_step}
    runs = ["", *_runs(history, output.layout)] if history.runs else []
    return output.layout.facts(facts | rest) + runs


def _runs(history: RunHistory, layout: Layout) -> list[str]:
    numbers = ("took", "chunks", "records read", "task time")
    rows = [
        (
            run.run_id if run.kind == "run" else f"{run.run_id} ({run.kind})",
            moment(run.first_commit_ms),
            duration((run.last_commit_ms - run.first_commit_ms) / 1000),
            f"{run.chunks:,}",
            f"{run.records_in:,}",
            duration(run.seconds),
        )
        for run in history.runs
    ]
    return layout.table(("run", "started", *numbers), rows, right=numbers)


def _slowest(history: RunHistory) -> str:
    if not history.chunks:
        return ""
    chunk = max(history.chunks, key=lambda each: each.seconds)
    return f"{duration(chunk.seconds)}: {chunk.store_partition} chunk {chunk.number}, on {chunk.host}"


def _steps(history: RunHistory) -> str:
    """The latest steps, with the number of store partitions that took them together."""
    return "\n".join(
        f"{moment(steps[-1].committed_at_ms)} {steps[0].step}"
        + (f" ({plural(len(steps), 'store partition')})" if len(steps) > 1 else "")
        for steps in history.milestones()[-_MOST_STEPS:]
    )


def changelog_rows(plan: ChangelogPlan | None) -> dict[str, str]:
    """Labels and texts of what a run does to the changelogs."""
    if plan is None:
        return {}
    topics = {each.topic: each.new_topic for each in plan.topics}
    written = "nothing"
    if plan.records:
        times = f"about {duration(plan.write_seconds)}, and {duration(plan.read_back_seconds)} to read it back"
        written = f"{plural(plan.records, 'record')}, {size(plan.bytes)}: {times}\nat {plan.assumed}"
    elif plan.way != "none":
        written = "nothing: earlier runs have written it, and read it back"
    return {
        "way": f"{plan.way}: {plan.why}",
        "topics": "\n".join(old if old == new else f"{old} -> {new}" for old, new in topics.items()),
        "partitions": "\n".join(map(str, plan.held)),
        "to write": written,
        "tail": _tail(plan),
        "way back": plan.way_back,
        "other stores": f"{', '.join(plan.other_stores)}: left as they are" if plan.other_stores else "",
    }


def _tail(plan: ChangelogPlan) -> str:
    if plan.tail_records is None:
        return "unknown: a check above it failed"
    if not plan.tail_records:
        return "none: the stores have all that the changelogs have"
    tail = f"{'up to ' if plan.is_most else ''}{plural(plan.tail_records, 'record')} that the stores lack"
    if plan.way == "none":
        return f"{tail}: the application replays them"
    if plan.way == "append":
        return tail
    return f"{tail}: stateferry catch-up takes about {duration(plan.catch_up_seconds)} of the application's stop"


def behind_in_words(behind: Behind | None) -> str:
    """What a catch-up would bring, and how long it takes; empty: there is nothing to catch up with."""
    if behind is None:
        return ""
    if behind.unknown:
        return f"unknown: {behind.unknown}"
    if not behind.records:
        return "none: the new stores have all that the old changelogs have"
    return f"{behind} that the new stores lack: a catch-up takes about {duration(behind.seconds)}"


def tail_in_words(tail: TailReport) -> str:
    """What a catch-up has read of one changelog."""
    read = f"{tail.store_partition}: {plural(tail.records, 'record')} from offset {tail.start:,} on"
    counts = {"dropped by the function": tail.dropped, "rejected": tail.rejected, "expired": tail.expired}
    left_out = "".join(f", {count:,} {what}" for what, count in counts.items() if count)
    return f"{read}, {plural(tail.keys, 'key')}, {tail.deleted:,} deleted{left_out}"


def held_elsewhere(held: Sequence[Held]) -> str:
    """The old changelogs with keys that this host does not have."""
    return "\n".join(str(each) for each in held if each.elsewhere)


def changelogs_in_words(changelogs: Sequence[ChangelogReport]) -> str:
    """What was written to each changelog, and whether it was read back."""
    return "\n".join(map(_changelog_in_words, changelogs))


def _changelog_in_words(changelog: ChangelogReport) -> str:
    written = f"{changelog.new_topic}: {plural(changelog.records, 'record')}"
    written += f" and {plural(changelog.tombstones, 'tombstone')}" if changelog.tombstones else ""
    written += f" written here, adopted {', '.join(changelog.adopted)}" if changelog.adopted else ""
    written += f"; from the old changelog alone {', '.join(changelog.rebuilt)}" if changelog.rebuilt else ""
    if changelog.note:
        return f"{written}, not compared: {changelog.note}"
    read = "read back and equal to the new store" if changelog.verified else "not read back"
    if changelog.outdated:
        read += f"; {changelog.outdated:,} of them older than its retention.ms: the broker removes them"
    return f"{written}, {read}"


def read_again(moved: Iterable[SetBack]) -> Iterator[str]:
    """What the application processes once more after a rollback."""
    found = [each for each in moved if each.records]
    for each in found:
        yield f"{plural(each.records, 'record')} of {each.topic}, partition {each.number}, from offset {each.offset}"
    if found:
        yield "they are processed again, and what the application sends on for them is sent twice"
