"""`replay`: a changed function takes over, and rewrites the chunks that lack rejected or dropped records."""

from __future__ import annotations

from migrate.batch.changelog.undo import appended_topics
from migrate.batch.chunk.executor import ExecutorOpener, executor_opener
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import is_abandoned
from migrate.batch.identity import changed_parts, spec_identity
from migrate.batch.ledger.gates import Acceptance, user
from migrate.batch.ledger.receipts_in_force import Revision, function_of, is_of_function
from migrate.batch.ledger.standing import Standing
from migrate.batch.log import log_end
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.run import carry_out
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.status.reject_reasons import stopped_at
from migrate.batch.status.run_report import already_migrated
from migrate.errors import RefusedError, system_errors_explained
from migrate.model.display import plural
from migrate.model.events import Listener, ignore
from migrate.model.journal import HALF_DONE, NEXT
from migrate.model.ledger_row import Step
from migrate.model.plan import newest_plan
from migrate.model.reports import RunReport
from migrate.spec.spec import Spec

_START_AGAIN = "to convert everything again: stateferry abandon SPEC, then stateferry run SPEC"
_RUN = "stateferry run SPEC"
_ANOTHER_NAME = "to convert everything again: start under another `name`"


def replay(
    spec: Spec,
    *,
    master: str | None = None,
    jobs: int = 1,
    accept_rejects: int | None = None,
    on_event: Listener = ignore,
    changelog_ends: ChangelogEnds | None = None,
) -> RunReport:
    """Go on with a migration whose function was fixed: rewrite the chunks that lack records, and those missing.

    The changed function is registered in the ledger as a revision of the conversion. The other chunks stay as they
    are, and everything is verified in full, whatever `[run] verify` says.

    Args:
        spec: the migration, from `load_spec` or built in code.
        master: a Spark master, such as "local[4]"; None: in this process, without Spark.
        jobs: how many processes of this machine work, without a master; with more than one, a function needs a name.
        accept_rejects: accept new stores that lack up to this many records, which could not be converted.
        on_event: called with each `Event`, before the work goes on.
        changelog_ends: by `<topic>-<partition>`, the offset after the last record that a consumer can read, where that
            has to be confirmed.

    Raises:
        SpecError: the spec's function cannot be imported, or cannot be sent to Spark's executors.
        RefusedError: more than the function has changed, there is nothing to replay, or the new stores are in use.
        ChunkFailedError: a chunk cannot be rewritten.
        RejectedError: more records than allowed cannot be converted.
        DroppedError: the function drops more records than the spec allows.
        VerificationError: the function converts other records differently too; nothing was published.
        InterruptedMigrationError: the time budget is used up.
    """
    acceptance = Acceptance(rejects=accept_rejects)
    context = Context(spec, on_event, acceptance=acceptance, changelog_ends=changelog_ends or {}, jobs=jobs)
    return replay_with(executor_opener(spec, master, jobs), context)


@system_errors_explained()
def replay_with(open_executor: ExecutorOpener, context: Context) -> RunReport:
    """`replay` with the given executor."""

    def check() -> None:
        if newest_plan(context.home) is None or is_abandoned(context.home):
            raise RefusedError(f"nothing to replay: {context.spec.name!r} was not started", hint=f"{_RUN} starts it")
        Preflight(context.loaded(), "run").check_before_lock()

    with command(context, before_lock=check):
        done = already_migrated(context) if _is_published(context) else None
        report = carry_out(context, open_executor, _revision(context)) if done is None else done
    log_end(report)
    return report


def _is_published(context: Context) -> bool:
    """Whether a replay of this function has published: it may have been killed right after that."""
    standing = context.standing
    is_over = standing.published is not None and standing.revision is not None and standing.step is None
    return is_over and not _changed(context)


def _changed(context: Context) -> list[str]:
    """The names of the parts of the spec and the function that are not the migration's any more."""
    return changed_parts(context.standing.identity, spec_identity(context.spec, context.ref))


def _revision(context: Context) -> Revision | None:
    """The revision to register; None: an interrupted replay is resumed. Raises RefusedError for nothing to replay."""
    standing = context.standing
    _check_not_live(context.spec, standing)
    if standing.every_tail:
        raise RefusedError(
            "the former function has converted records of the old changelogs: for a catch-up, or for store partitions "
            "that no host has",
            hint=_START_AGAIN,
        )
    changed = _changed(context)
    if other := [name for name in changed if not is_of_function(name)]:
        raise RefusedError(
            f"a replay takes another function alone, and more has changed since: {', '.join(other)}",
            hint=f"restore the rest of the spec, with the function under its former name; or, {_START_AGAIN}",
        )
    if not changed and not (standing.mismatch and standing.is_of_several_revisions):
        _check_unfinished(context)
        return None
    _check_not_published(context.spec, standing)
    if appended_topics(standing.changelogs) is not None:
        raise RefusedError(
            "the changelogs have records of the former function, and no tombstones of keys that this one does not give",
            hint=_START_AGAIN,
        )
    function = function_of(spec_identity(context.spec, context.ref))
    return Revision(number=1 + len(standing.revisions), function=function, by=user())


def _check_not_live(spec: Spec, standing: Standing) -> None:
    """Raises RefusedError where the new stores are in use, or half in use."""
    if not standing.is_live:
        return
    if standing.step in HALF_DONE:
        raise RefusedError(f"the migration {spec.name!r} is half way: {standing.state}", hint=NEXT[standing.state])
    way_back = f"stateferry rollback SPEC goes back, and a replay is possible then; or, {_ANOTHER_NAME}"
    raise RefusedError(
        f"the new stores of {spec.name!r} are in use ({standing.state}): nothing can be replayed into them",
        hint=way_back if standing.step is Step.CUT_OVER else _ANOTHER_NAME,
    )


def _check_not_published(spec: Spec, standing: Standing) -> None:
    """Raises RefusedError where a run was killed between the publication and its row."""
    if standing.publications and spec.target_path is not None and spec.target_path.exists():
        raise RefusedError(
            f"{spec.target_path} was published by a run that was killed",
            hint="stateferry run SPEC, with the function as it was, finishes it",
        )


def _check_unfinished(context: Context) -> None:
    """Raises RefusedError unless a replay by this function can go on."""
    standing = context.standing
    stopped = stopped_at(standing) is not None
    rejected = standing.totals.rejected + stopped
    has_ended = stopped or (rejected and standing.is_verified and not standing.publications)
    if standing.revision is not None and not has_ended:
        return
    has_function = context.ref.function is not None
    if rejected:
        again = "is" if rejected == 1 else "are"
        raise RefusedError(
            f"the function has not changed: {plural(rejected, 'record')} that {again} rejected would be rejected again"
            if has_function
            else "there is no function that could be fixed: the formats and serdes reject the records",
            hint="stateferry rejects SPEC shows where; fix the function first" if has_function else _START_AGAIN,
        )
    raise RefusedError(
        "nothing to replay: no record was rejected, and the function has not changed",
        hint="stateferry run SPEC resumes it" if standing.pending else "stateferry status SPEC names the next step",
    )
