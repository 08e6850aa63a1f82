"""The reports of `run` and of a catch-up, also for a migration that is over: `run` does not start it again (I10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.changelog.concerns import every_concern, note_of, retention_concerns
from migrate.batch.changelog.held_topics import ask_broker
from migrate.batch.chunk.native_trace import deaths_in_words
from migrate.batch.context import Context
from migrate.batch.identity import check_spec
from migrate.batch.ledger.changelog_standing import changelog_reports
from migrate.batch.ledger.dead_letters import dead_letter_columns
from migrate.batch.ledger.gates import concerns_of, not_accepted, require_acceptance
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.restored_source import imported_table
from migrate.batch.status.next_step import next_step
from migrate.batch.status.status import rewriting_of, throughput_of
from migrate.errors import RefusedError
from migrate.model.changelogs import Tail
from migrate.model.comparison import Verification
from migrate.model.display import plural
from migrate.model.journal import HALF_DONE, NEXT, STATES
from migrate.model.ledger_row import Step
from migrate.model.receipt import Receipt
from migrate.model.reports import CatchUpReport, Concern, RunReport, State, TailReport

_CUT_OVER = "stateferry cutover SPEC puts the new stores beside the old ones"
_AGAIN = f"stateferry catch-up SPEC once more; then {_CUT_OVER}"


def already_migrated(context: Context) -> RunReport | None:
    """The report of a migration with nothing left to do; None: there is something.

    Raises RefusedError where a switch is half done, VerificationError where a later comparison found a mismatch.
    """
    standing = context.standing
    step, path = standing.step, standing.published
    if standing.plan is None or not standing.is_live:
        return None
    if step in HALF_DONE:
        raise RefusedError(f"the migration {context.spec.name!r} is half way: {STATES[step]}", hint=NEXT[STATES[step]])
    check_spec(context.spec, context.ref, standing)
    if path is not None and step is not Step.FINALIZED and not path.is_dir():
        raise RefusedError(
            f"this migration was published at {path}, and that directory does not exist any more",
            hint="the result is where it was moved to; to migrate once more, start again under another `name`",
        )
    concerns = concerns_of(context.spec, standing)
    if step is not Step.FINALIZED:
        require_acceptance((concern for concern in concerns if concern.kind == "mismatch"), "already migrated")
    found, done = Outcome(standing, standing.verification or Verification(mode="off")), standing.receipts
    report = run_report(context, found, done_before=done, published=path, concerns=concerns, seconds={})
    state = "published" if step is None else STATES[step]
    place = "the new stores are where the application looks; " if path is None else ""
    following = f"already migrated: {place}{next_step(context.spec, standing, state)}"
    new_stores = tuple(context.new_stores.values()) if path is None else ()
    return report.model_copy(update={"state": state, "new_stores": new_stores, "next_step": following})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The new stores, and how they were made and compared."""

    standing: Standing
    """Before they were published."""
    verification: Verification
    dead_letters: Path | None = None


def run_report(
    context: Context,
    outcome: Outcome,
    *,
    done_before: list[Receipt],
    published: Path | None,
    concerns: tuple[Concern, ...],
    seconds: dict[str, float],
) -> RunReport:
    """The report of one run. No `seconds`: the migration was finished before, and this run did nothing."""
    standing, plan = outcome.standing, context.plan
    behind, held = ask_broker(context.spec, standing)
    dead_letters, before = outcome.dead_letters, {receipt.attempt for receipt in done_before}
    own = rewriting_of(standing, (receipt for receipt in standing.receipts if receipt.attempt not in before))
    made: State = "assembled" if outcome.verification.mode == "off" else "verified"
    state = made if published is None else "published"
    place = f"the new stores are in {context.home / 'new'}, the old ones are unchanged; " if published is None else ""
    return RunReport(
        name=context.spec.name,
        migration_id=plan.migration_id,
        run_id=context.run_id,
        state=state,
        source_format=context.spec.source.format,
        target_format=context.spec.target.format,
        source=context.spec.source_path,
        store_partitions=len(plan.olds),
        totals=standing.totals,
        throughput=throughput_of(standing),
        chunks_planned=len(plan.chunks),
        chunks_done_before=len(done_before),
        seconds=seconds,
        records_per_second=0 if own is None else own.records_per_second,
        verification=outcome.verification,
        new_stores=tuple(standing.assembled.values()),
        published=published,
        imported=imported_table(context.spec),
        dead_letters=dead_letters,
        dead_letter_columns=() if dead_letters is None else dead_letter_columns(),
        concerns=(*concerns, *retention_concerns(standing)),
        changelog=note_of(context.spec, context.conversion, standing),
        changelogs=changelog_reports(standing.changelogs),
        held=held,
        warnings=(*plan.warnings, *context.warnings, *deaths_in_words(standing.receipts, outcome.verification)),
        next_step=place
        + next_step(context.spec, standing, state, not_accepted(concerns), behind=behind, partitions=held),
    )


@dataclass(frozen=True, slots=True)
class BrokerSummary:
    """What the broker has said, before the old changelogs were read."""

    application: str
    """A sentence about the application's group."""
    runs: bool | None
    """Whether the application runs; None: unknown."""
    behind: int
    """Offsets behind an open transaction."""

    @property
    def next_step(self) -> str:
        """What follows, if nothing else holds the cut-over back; empty: unknown."""
        if self.runs:
            return f"the application still runs: once it has stopped, {_AGAIN}"
        if self.behind:
            held = f"{plural(self.behind, 'offset')} {'is' if self.behind == 1 else 'are'} behind an open transaction"
            ended = "wait until it ends (transaction.timeout.ms), or end what dead instances of this host left: --fence"
            return f"{held}: {ended}; {_AGAIN}"
        return "" if self.runs is None else f"nothing is behind: {_CUT_OVER}"


def catch_up_report(
    context: Context,
    at_broker: BrokerSummary | None = None,
    found: Sequence[Tail] = (),
    *,
    seconds: float,
) -> CatchUpReport:
    """The report of one catch-up; `at_broker`: None where the application replays the changelog itself."""
    standing = context.standing
    concerns = every_concern(context.spec, standing)
    held = not_accepted(concerns)
    following = next_step(context.spec, standing, standing.state, held)
    if at_broker is not None and not held:
        following = at_broker.next_step or following
    what = "nothing is behind: nobody has written to the changelogs since"
    if at_broker is None:
        what = "the conversion leaves the changelog as it is: the application itself replays what it wrote since"
    elif found:
        records = plural(sum(each.records for each in found), "record")
        what = f"{records} of the changelogs were applied to the new stores"
    elif at_broker.behind:
        what = "nothing can be read: what is behind is in an open transaction"
    return CatchUpReport(
        name=context.spec.name,
        migration_id=context.plan.migration_id,
        what=what,
        tails=tuple(
            TailReport(
                **each.model_dump(include={"store_partition", "number", "start", "end", "records", "keys"}),
                deleted=sum(file.deletes for file in each.files),
                rejected=each.rejected,
                dropped=each.dropped,
                expired=each.expired,
            )
            for each in found
        ),
        behind=0 if at_broker is None else at_broker.behind,
        application="" if at_broker is None else at_broker.application,
        seconds=round(seconds, 3),
        warnings=tuple(context.warnings),
        concerns=concerns,
        next_step=following,
    )
