"""Read the changelogs back, and compare what a restore would give with the new stores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.topics import AssembledStores
from migrate.batch.changelog.write import Work, connection_of
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.chunk.reread import RereadTask
from migrate.batch.context import Context
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.errors import ChangelogFailedError, VerificationError
from migrate.kafka.cluster import Cluster, Ends
from migrate.kafka.reader import read
from migrate.model.changelog.compared import Reread
from migrate.model.changelog.written import Changelog, Part, Produced, Topics
from migrate.model.ledger_row import Row, Step

_PATIENCE_SECONDS = 60.0
"""The end of a transaction shows a moment after its commit."""
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
    connection = connection_of(context.spec)
    standing = ChangelogStanding(ledger.rows)
    before, written = {} if again else standing.reread, {each.store_partition for each in standing.produced}
    with Cluster(connection) as cluster:
        places = [(each, settled(cluster, each)) for each in topics.changelogs if each.store_partition in written]
        limits = {name: expired_before(cluster, name) for name in {each.new_topic for each, _ in places}}
    work = Work(context, connection, topics, stores)
    tasks = [
        reread_task(work, each, topics.starts[each.store_partition], ends, limits[each.new_topic])
        for each, ends in places
        if not _is_known(before.get(each.store_partition), ends)
    ]
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
    connection = connection_of(context.spec)
    assert written.topics is not None
    with Cluster(connection) as cluster:
        for each in written.topics.changelogs:
            last = written.last_offsets[each.store_partition]
            start = written.topics.starts[each.store_partition] if last is None else last + 1
            ends = cluster.ends_of(each.new_topic, each.number)
            new = read(connection, each.new_topic, each.number, start, ends.stable)
            if ends.stable < ends.end or next(new, None) is not None:
                return f"{each.new_topic}, partition {each.number},"
    return None


def settled(cluster: Cluster, changelog: Changelog) -> Ends:
    """Where the new topic's partition ends, once no transaction is open there. Raises ChangelogFailedError."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        ends = cluster.ends_of(changelog.new_topic, changelog.number)
        if ends.stable >= ends.end:
            return ends
        if time.monotonic() > deadline:
            raise ChangelogFailedError(
                f"a transaction is open in {changelog.new_topic}, partition {changelog.number}, from offset "
                f"{ends.stable} on",
                hint="whose is it? once it has ended (transaction.timeout.ms), run the same command again",
            )
        time.sleep(0.1)


def _is_known(before: Reread | None, ends: Ends) -> bool:
    return before is not None and before.ok and before.end == ends.end


def expired_before(cluster: Cluster, name: str) -> int | None:
    """The time before which the topic's retention may have removed records; None: it removes none."""
    topic = cluster.topic(name)
    settings = {} if topic is None else topic.settings
    retention = int(settings.get("retention.ms", -1))
    if "delete" not in settings.get("cleanup.policy", "") or retention < 0:
        return None
    return int(time.time() * 1000) - retention


def reread_task(work: Work, changelog: Changelog, start: int, ends: Ends, expired_before: int | None) -> RereadTask:
    """The comparison of a changelog, from `start` on, with the new store."""
    partition = changelog.store_partition
    return RereadTask(
        connection=work.connection,
        changelog=changelog,
        start=max(start, ends.start),
        end=ends.end,
        new=work.new(Part(store_partition=partition, database="")),
        old=work.old(partition),
        folder=work.folder(partition, "reread"),
        expired_before=expired_before,
        dropped_before=_dropped_before(work, partition),
        size=sum(each.data_bytes for each in work.stores.databases(partition)),
    )


def _dropped_before(work: Work, partition: str) -> int | None:
    """The start of the oldest segment that tails have left of those that were written; None: they have dropped none."""
    planned = {each.database for each in work.stores.plan.databases if each.store_partition == partition}
    left = {each.database for each in work.stores.databases(partition)}
    if not work.context.conversion.target.is_segmented or planned <= left:
        return None
    return min((int(name.rpartition(".")[2]) for name in left), default=None)


def check_equal(found: Sequence[Reread], topics: Topics) -> None:
    """Raises VerificationError for a comparison that found a difference."""
    wrong = [each for each in found if not each.ok]
    if not wrong:
        return
    kinds = {each.kind: each for reread in reversed(wrong) for each in reread.first}
    first = "\n".join(f"  - {each}" for each in kinds.values())
    raise VerificationError(
        f"the changelog does not hold the new store: {sum(each.missing for each in wrong)} keys missing, "
        f"{sum(each.differing for each in wrong)} differing, {sum(each.extra for each in wrong)} extra\n{first}",
        hint=_WRITE_AGAIN["append" if topics.way == "append" else "new-topic"],
    )
