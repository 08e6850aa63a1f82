"""The history of a migration as an HTML page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from migrate.batch.ledger.gates import not_accepted
from migrate.model.comparison import Verification
from migrate.model.display import duration, moment, number, plural, size
from migrate.model.key_range import show_key
from migrate.model.packages import VERSION
from migrate.model.reports import State
from migrate.model.run_history import ChunkDone, RunHistory, StepDone
from migrate.model.store_partition import place_name
from migrate.show.page.plots import (
    Band,
    Bar,
    Plot,
    RateOverTime,
    bands,
    measure,
    parts_of,
    sorted_bars,
    span_of,
    throughput,
)
from migrate.show.page.rendering import render
from migrate.show.text.report_text import changelogs_in_words, engines_in_words

_STATES: dict[State, tuple[str, str]] = {
    "not started": ("idle", "Not started"),
    "snapshot taken": ("idle", "Snapshot taken"),
    "rewriting": ("warn", "Not finished"),
    "assembled": ("warn", "Not verified yet"),
    "verified": ("good", "Verified"),
    "mismatch": ("bad", "Mismatch"),
    "published": ("good", "Published"),
    "cutting over": ("warn", "Cut-over not finished"),
    "cut over": ("good", "Cut over"),
    "rolling back": ("warn", "Rollback not finished"),
    "rolled back": ("idle", "Rolled back"),
    "finalizing": ("warn", "Not finalized yet"),
    "finalized": ("good", "Finalized"),
}
_STEPS = {
    "run": "run started",
    "publishing": "publishing started",
    "cutting-over": "cut-over started",
    "cut-over": "cut over",
    "rolling-back": "rollback started",
    "rolled-back": "rolled back",
    "finalizing": "finalizing started",
}
_ALL_EQUAL = "all equal"
_SLOWEST = 5
_MOST_ROWS = 1000
"""Of the table of chunks: a browser is slow with more, and JSON has them all."""
_STRONGEST = 5
"""The multiple of the median duration that has the strongest colour on the map."""


def run_page(history: RunHistory) -> str:
    """The whole history as one HTML page."""
    kind, word = _tone(history), _word(history)
    measured, speeds = measure(history.chunks), {each.phase: each for each in history.throughput}
    return render(
        "run.html.j2",
        history=history,
        kind=kind,
        word=word,
        sentence=_sentence(history),
        measured=measured,
        rewriting=speeds.get("rewriting"),
        verifying=speeds.get("verification"),
        notes=_notes(history),
        changelogs=changelogs_in_words(history.changelogs).splitlines(),
        verification_word=_verification_word(history.verification),
        verification_parts=_verification_parts(history.verification) if history.verification else (),
        reject_parts=parts_of([(reason.reason, reason.records, "bad") for reason in history.rejects], number),
        dead_letter_columns=", ".join(f"{column.name} {column.type}" for column in history.dead_letter_columns),
        plots=_plots(history, measured),
        bands=_bands(history.chunks),
        engines=engines_in_words(history.chunks),
        durations=_durations(history.chunks),
        slowest=_slowest(history.chunks),
        chunk_rows=[_row(chunk) for chunk in history.chunks[-_MOST_ROWS:]],
        chunk_title="All chunks"
        if len(history.chunks) <= _MOST_ROWS
        else f"The last {number(_MOST_ROWS)} chunks; report --json has all",
        runs=_runs(history),
        steps=_milestones(history),
        show_key=show_key,
        tool_version=VERSION,
    )


def _tone(history: RunHistory) -> str:
    """The colour of the banner: green only for a finished and verified migration without concerns."""
    kind = _STATES[history.state][0]
    if any(concern.kind == "mismatch" for concern in history.concerns):
        return "bad"
    is_clear = _verification_word(history.verification) == _ALL_EQUAL and not history.concerns
    return "warn" if kind == "good" and not is_clear else kind


def _word(history: RunHistory) -> str:
    word, held = _STATES[history.state][1], {concern.kind for concern in not_accepted(history.concerns)}
    if "mismatch" in held and history.state != "mismatch":
        return f"{word}, verification failed since"
    return f"{word}, held back" if held and history.state in ("assembled", "verified") else word


def _sentence(history: RunHistory) -> str:
    totals = history.totals
    left = f"{plural(history.chunks_left, 'chunk')} of {number(history.chunks_planned)} left to rewrite"
    facts = [left if history.chunks_left else f"{plural(totals.records_out, 'record')} written"]
    if history.chunks_planned == 0:
        facts = ["nothing is planned yet"]
    if totals.rejected + totals.dropped:
        facts.append(f"{number(totals.rejected + totals.dropped)} left out")
    if totals.dropped:
        facts[-1] += f" ({number(totals.rejected)} rejected, {number(totals.dropped)} dropped by the function)"
    if any(concern.kind == "unverified" for concern in history.concerns):
        facts.append("not verified")
    elif history.verification is not None:
        facts.append(f"verification: {_verification_word(history.verification)}")
    text = ", ".join(facts)
    return f"{text[0].upper()}{text[1:]}."


def _notes(history: RunHistory) -> list[str]:
    rejected, known = history.totals.rejected, {concern.kind for concern in history.concerns}
    left_out = f"{plural(rejected, 'record')} could not be converted: see Rejects"
    return [*([left_out] if rejected and "rejects" not in known else []), *history.warnings]


def _verification_word(found: Verification | None) -> str:
    if found is None:
        return "not yet"
    if found.mode == "off":
        return "off"
    if found.ok:
        return _ALL_EQUAL
    return f"{number(found.missing + found.differing + found.extra)} wrong"


def _verification_parts(found: Verification) -> list[Bar]:
    counts = (
        ("compared", found.records, "accent"),
        ("missing in the new store", found.missing, "bad"),
        ("differing", found.differing, "bad"),
        ("extra in the new store", found.extra, "bad"),
    )
    return parts_of(counts, number)


def _plots(history: RunHistory, measured: RateOverTime | None) -> dict[str, Plot]:
    wanted = {}
    if measured is not None:
        wanted["throughput"] = throughput(measured)
    if len(history.chunks) > 1:
        seconds = [chunk.seconds for chunk in history.chunks]
        wanted["durations"] = sorted_bars(seconds, what="durations", show=duration, ends=("longest", "shortest"))
    return wanted


def _bands(chunks: Sequence[ChunkDone]) -> list[Band]:
    """The map of the chunks, coloured by duration up to a multiple of the median."""
    seconds = [chunk.seconds for chunk in chunks] or [0.0]
    strongest = min(max(seconds), _STRONGEST * median(seconds)) or 1.0
    ordered = sorted(
        chunks, key=lambda chunk: (_natural(chunk.store_partition), _natural(chunk.database), chunk.number)
    )
    return bands(
        span_of(chunk, chunk.bytes_in, seconds=chunk.seconds, opacity=0.3 + 0.7 * min(1.0, chunk.seconds / strongest))
        for chunk in ordered
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which 0_2 comes before 0_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _durations(chunks: Sequence[ChunkDone]) -> str:
    if not chunks:
        return ""
    seconds = [chunk.seconds for chunk in chunks]
    return f"median {duration(median(seconds))}, shortest {duration(min(seconds))}, longest {duration(max(seconds))}"


def _slowest(chunks: Sequence[ChunkDone]) -> list[tuple[str, ...]]:
    return [
        (
            f"{place_name(chunk.store_partition, chunk.database)}, {chunk.number}",
            duration(chunk.seconds),
            number(chunk.records_in),
            size(chunk.bytes_in),
            chunk.host,
        )
        for chunk in sorted(chunks, key=lambda chunk: -chunk.seconds)[:_SLOWEST]
    ]


def _row(chunk: ChunkDone) -> tuple[str, ...]:
    counts = (chunk.records_in, chunk.records_out)
    return (
        place_name(chunk.store_partition, chunk.database),
        str(chunk.number),
        str(chunk.keys),
        *map(number, counts),
        size(chunk.bytes_in),
        size(chunk.bytes_out),
        number(chunk.dropped),
        number(chunk.rejected),
        duration(chunk.seconds),
        moment(chunk.committed_at_ms),
        chunk.host,
        chunk.engine,
    )


def _runs(history: RunHistory) -> list[tuple[str, ...]]:
    return [
        (
            str(place),
            number(run.chunks),
            number(run.records_in),
            moment(run.first_commit_ms),
            moment(run.last_commit_ms),
            duration(run.seconds),
            run.run_id if run.kind == "run" else f"{run.run_id} ({run.kind})",
        )
        for place, run in enumerate(history.runs, start=1)
    ]


def _milestones(history: RunHistory) -> list[tuple[str, str, list[StepDone]]]:
    """The steps: what each is called, the time since the one before it, and those who took it together."""
    groups = history.milestones()
    ends = [group[-1].committed_at_ms for group in groups]
    waits = (f"{duration((at - before) / 1000)} later" if at >= before else "" for before, at in pairwise(ends))
    named = (_STEPS.get(group[0].step, group[0].step) for group in groups)
    return list(zip(named, ["", *waits], groups, strict=False))
