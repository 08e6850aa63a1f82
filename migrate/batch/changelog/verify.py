"""Read the changelogs back, and compare what a restore would give with the new stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from migrate.batch.changelog.assembled import AssembledStores
from migrate.batch.changelog.broker.connect import cluster_of
from migrate.batch.changelog.broker.records import has_records, settled
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.write import Work
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.context import Context
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.errors import VerificationError
from migrate.model.changelog.compared import Reread
from migrate.model.changelog.written import Produced, Topics
from migrate.model.ledger_row import Row, Step
from migrate.model.units import plural

_AS_IT_WAS = "nothing reads the new changelog yet, and the old store is as it was"
_WRITE_AGAIN = {
    "new-topic": f"{_AS_IT_WAS}; delete the topic, and stateferry run SPEC makes and fills it again; if it ends here "
    "once more: does another process write to the topic? else keep the work_dir and report this",
    "append": "the changelog is not whole: start no application; does another process write to the topic? stateferry "
    "rollback SPEC appends the old values again",
}


def verify_changelogs(
    context: Context,
    executor: Executor,
    ledger: Ledger,
    stores: AssembledStores,
    topics: Topics,
    *,
    again: bool = False,
) -> None:
    """Read back every changelog that is written or adopted, but those that an earlier run found right and that end
    where they did then.

    `again`: those, too. Raises VerificationError, ChangelogFailedError where a topic cannot be read to its end.
    """
    standing = ChangelogStanding(ledger.rows)
    before, written = {} if again else standing.reread, {each.store_partition for each in standing.produced}
    tasks = []
    with cluster_of(context.spec) as cluster:
        work = Work(context, cluster.connection, topics, stores)
        for each in topics.changelogs:
            if (partition := each.store_partition) in written:
                ends, known = settled(cluster, each), before.get(partition)
                if known is None or not known.ok or known.end != ends.end:
                    tasks.append(work.reread(cluster, each, topics.starts[partition], ends))
    found = collected(executor, tasks, Reread, name=context.spec.name, stop=context.stop)
    record_comparisons(context, ledger, found, "changelog.verified")
    check_equal(found, topics)


def record_comparisons(context: Context, ledger: Ledger, found: Sequence[Reread], event: str) -> None:
    """Commit these together."""
    if found:
        ledger.commit(*(row_of(ledger, Step.REREAD, each) for each in found))
        context.notify(event, found=found)


def row_of(ledger: Ledger, step: Step, found: Produced | Reread) -> Row:
    """The row about a changelog."""
    return ledger.row(step, store_partition=found.store_partition, detail=found.model_dump(mode="json"))


def verify_again(
    context: Context, executor: Executor, open_ledger: Callable[[], Ledger], stores: AssembledStores, standing: Standing
) -> str:
    """Compare every changelog once more; returns why not, where that says nothing. Raises as `verify_changelogs`."""
    written = ChangelogStanding(standing.rows)
    if written.topics is None:
        return ""
    if written.pending(stores.contents(written.topics.parts)):
        return "not all of it is written: stateferry run SPEC goes on"
    if standing.is_in_use and (topic := _written_to(context, written)) is not None:
        return f"an application has written to {topic} since it was filled, so it no longer holds the store as it was"
    verify_changelogs(context, executor, open_ledger(), stores, written.topics, again=True)
    return ""


def _written_to(context: Context, written: ChangelogStanding) -> str | None:
    """The topic, and partition, that somebody has written to since it was filled; None: no record is new."""
    assert written.topics is not None
    with cluster_of(context.spec) as cluster:
        for each in written.topics.changelogs:
            place = (each.new_topic, each.number)
            last = written.last_offsets[each.store_partition]
            start = written.topics.starts[each.store_partition] if last is None else last + 1
            ends = cluster.ends_of(*place)
            if ends.stable < ends.end or has_records(cluster.connection, *place, start, ends.stable):
                return f"{each.new_topic}, partition {each.number},"
    return None


def check_equal(found: Sequence[Reread], topics: Topics) -> None:
    """Raises VerificationError for a comparison that found a difference."""
    wrong = [each for each in found if not each.ok]
    if not wrong:
        return
    kinds = {each.kind: each for reread in reversed(wrong) for each in reread.first}
    first = "\n".join(f"  - {each}" for each in kinds.values())
    missing = plural(sum(each.missing for each in wrong), "key")
    raise VerificationError(
        f"the changelog does not hold the new store: {missing} missing, "
        f"{sum(each.differing for each in wrong)} differing, {sum(each.extra for each in wrong)} extra\n{first}",
        hint=_WRITE_AGAIN["append" if topics.way == "append" else "new-topic"],
    )
