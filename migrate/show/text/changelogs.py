"""Changelogs as text: what a plan does to them, what was written, and what the new stores lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from migrate.dry_run.dry_run_report import ChangelogPlan
from migrate.model.reports import Behind, ChangelogReport, Held, SetBack, TailReport
from migrate.model.units import duration, plural, size


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
