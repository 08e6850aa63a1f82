"""Checks of a run that sorts new keys: what does not go with it, and that Spark, which sorts, is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from migrate.batch.context import Context
from migrate.batch.preflight.check import Check
from migrate.errors import RefusedError
from migrate.model.plan import DatabasePlan
from migrate.spec.changelog_way import takes_times
from migrate.spec.spec import Spec

_ON_SPARK = (
    'leave --no-spark and --jobs out: stateferry run SPEC, on this machine or with --master "spark://host:7077"; or '
    'spark-submit jobs/migrate_job.py --spec SPEC; in code: run(spec, master="local[4]")'
)


def sort_check(
    context: Context,
    why: Callable[[], str],
    databases: Callable[[], Sequence[DatabasePlan]],
    is_behind: Callable[[], bool],
) -> Iterator[Check]:
    """The check, after those that it needs. `why`: the run sorts, in words; empty: it does not.

    `is_behind`: whether a catch-up has to come before the cut-over, as far as earlier checks have found out.
    """

    def check() -> str:
        if not (reason := why()):
            return "no: chunks are written in the order of their old keys"
        check_goes_with_sorting(context, databases(), is_behind=is_behind())
        if context.is_on_spark is False:
            raise RefusedError(f"the run sorts the new keys, which Spark does: {reason}", hint=_ON_SPARK)
        return f"yes, by Spark: {reason}"

    needs = ("source.format", *(() if context.spec.changelog is None else ("changelog.position",)))
    yield Check("run.sort", "where new keys have to be sorted, they can be", check, needs)


def check_goes_with_sorting(context: Context, databases: Sequence[DatabasePlan], *, is_behind: bool) -> None:
    """Raises RefusedError for what does not go with sorted keys."""
    spec = context.spec
    if older := [family for each in databases for mapping in each.mappings for family in mapping.older]:
        raise _refused(
            f"the store is being upgraded by its owner, and has records in {older[0]!r} yet",
            "migrate it without a change of its keys first, which merges them; then change the keys",
        )
    if any(each.times is not None for each in databases):
        raise _refused("[target] retention_ms or segment_ms cut other segments", "change those in a spec of their own")
    if takes_times(spec, context.conversion):
        raise _refused('[changelog] timestamps = "changelog"', "take those over first, in a spec of their own")
    if spec.changelog is not None and spec.changelog.missing == "rebuild":
        raise _refused('[changelog] missing = "rebuild"', "migrate on one host that has every task, and leave it out")
    if spec.run.source == "snapshot":
        raise _refused('[run] source = "snapshot"', 'set [run] source = "live", and stop the application for the run')
    if is_behind:
        raise _refused(
            "the application has written to its changelogs what the old stores lack, and no catch-up goes with it",
            "start and stop the old application once, cleanly; then run the same command again",
        )


def _refused(what: str, hint: str) -> RefusedError:
    return RefusedError(f"new keys that have to be sorted do not go with this: {what}", hint=hint)


def check_may_sort(spec: Spec, *, may_change_keys: bool) -> None:
    """Raises RefusedError for another number of store partitions whose changed keys are not to be sorted."""
    if spec.run.sort is False and spec.target.partitions is not None and may_change_keys:
        raise RefusedError(
            "[run] sort = false: with [target] partitions, a changed key may belong to any of the new store partitions",
            hint="leave [run] sort out",
        )
