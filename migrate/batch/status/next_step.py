"""The operator's next step: one place decides it, for every report and every refusal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from migrate.batch.ledger.gates import what_stays
from migrate.batch.ledger.standing import Standing
from migrate.batch.run_lock import pid_at_work
from migrate.errors import MigrationError
from migrate.model.display import plural
from migrate.model.journal import NEXT
from migrate.model.ledger_row import Step
from migrate.model.reports import Behind, Concern, Held, State
from migrate.spec.spec import Spec

_AGAIN = "stateferry abandon SPEC, then stateferry run SPEC"


def next_step(
    spec: Spec,
    standing: Standing,
    state: State,
    held: Sequence[Concern] = (),
    *,
    has_stopped: bool = False,
    behind: Behind | None = None,
    partitions: Sequence[Held] = (),
) -> str:
    """The next step of a migration in this state.

    `held`: the concerns that nothing accepts. `has_stopped`: the last run did, at a record that its function rejected.
    `behind`: what the new stores lack, where the broker was asked; `partitions`: of the old changelogs, likewise.
    """
    if has_stopped:
        return "stateferry rejects SPEC shows where the function fails; fix it, then stateferry replay SPEC goes on"
    fixes = "; ".join(concern.fix for concern in held)
    if state == "rolled back":
        return f"start the old version of the application; {fixes or _after_rollback(spec, standing)}"
    if any(concern.kind == "mismatch" for concern in held) or (held and state in ("assembled", "verified")):
        return fixes
    if state == "snapshot taken" and spec.run.source == "live":  # by a run that was refused: the next takes its own
        return NEXT["not started"]
    if state == "published":
        return f"point the application at {standing.published or spec.target_path}, {what_stays(spec)}; {NEXT[state]}"
    gone = files_gone(standing) if state == "rewriting" else ""
    return gone or NEXT.get(state) or _going_live(spec, behind, [each for each in partitions if each.missing])


def files_gone(standing: Standing) -> str:
    """What to do about chunks that were rewritten, and whose files are gone; empty: there are none."""
    if not (chunks := standing.without_files):
        return ""
    rejected = sum(each.rejected for each in chunks)
    records = f", with {plural(rejected, 'rejected record')}" if rejected else ""
    return f"the files of {plural(len(chunks), 'chunk')} are gone{records}: stateferry run SPEC rewrites them"


def _going_live(spec: Spec, behind: Behind | None, missing: Sequence[Held]) -> str:
    if missing and spec.changelog is not None and spec.changelog.missing != "leave":
        where = "" if spec.changelog.missing == "rebuild" else " on the hosts that have them"
        return (
            f"{'; '.join(each.missing_in_words for each in missing)}: stateferry run SPEC{where}, before any cut-over "
            "(docs/changelogs.md: what if no host has a store partition?)"
        )
    if spec.target_path is not None:
        return "stateferry run SPEC (verifies and publishes)"
    ready = "stop the application" if spec.run.source == "snapshot" else "with the application still stopped"
    place = "beside the old ones" if spec.target.store_names else "in the old ones' places"
    if may_catch_up(spec):
        ready += ": stateferry catch-up SPEC brings what it wrote since the snapshot; then"
    elif behind is not None and behind.records:
        ready += f": stateferry catch-up SPEC brings the {behind} that the new stores lack; then"
    else:
        ready += ":"
    return f"{ready} stateferry cutover SPEC puts the new stores {place}"


def may_catch_up(spec: Spec) -> bool:
    """Whether the application goes on during the run, and its changelog is not one that the new store can replay."""
    return spec.run.source == "snapshot" and spec.changelog is not None and bool(spec.target.store_names)


def _after_rollback(spec: Spec, standing: Standing) -> str:
    is_assembled = False
    with suppress(MigrationError):  # a rollback does not need the plan
        is_assembled = standing.looked_at_again().is_assembled  # as they are now
    if any(row.step is Step.CHANGELOG for row in standing.rows):
        again = "stateferry run SPEC writes the changelogs of the new stores again"
    elif is_assembled:
        again = "stateferry cutover SPEC exchanges the stores again"
    else:
        again = "stateferry run SPEC makes the discarded new stores again"
    if spec.run.source == "snapshot":
        return f"{again}; {_AGAIN} starts over"
    return f"until it has written to the old stores: {again}; from then on: {_AGAIN}"


def work_in_progress(home: Path) -> str:
    """The sentence about a command of this host that is working on the migration; empty: none is known."""
    pid = pid_at_work(home)
    return f"a run with pid {pid} is working on it" if pid else ""


def following(home: Path) -> str:
    """The next step while a command is at work; empty: none is known to be."""
    working = work_in_progress(home)
    return f"{working}: follow it with stateferry status SPEC --watch" if working else ""
