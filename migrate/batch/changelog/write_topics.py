"""Write the changelogs of the new stores: every part without a receipt, each confirmed by the broker, then recorded.

A command begins with a permit: a file that names the transactional ids of its tasks. An attempt takes over its id, and
looks for the permit then. At the end the permit is withdrawn, and all ids are taken over: an attempt that has seen the
permit can write no more, and a later one does not find it. So what outlives its command is kept out.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from migrate.batch.changelog.broker_access import asked_at_once, cluster_of, expired_before, settled
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.store_changelogs import reached
from migrate.batch.changelog.topics import open_topics
from migrate.batch.chunk.executor import Executor, run_all
from migrate.batch.chunk.reread_changelog import RereadTask
from migrate.batch.chunk.write_changelog import NewEntries, OldEntries, ProduceTask
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG
from migrate.batch.ledger.changelog_standing import contents_of
from migrate.batch.ledger.gates import concerns_of, require_acceptance
from migrate.batch.ledger.table import SharedCommits
from migrate.batch.plan.new_stores import kept_databases, overlay_of
from migrate.batch.source.source import target_system
from migrate.engine.chunk_source import inputs_of
from migrate.kafka.cluster import Cluster, Ends
from migrate.kafka.connection import Connection
from migrate.kafka.writer import end_in_record
from migrate.model.changelogs import Changelog, Produced, Times, TopicPart
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import DatabasePlan
from migrate.spec.changelog_way import way_of
from migrate.stores.files import fsync_directory, make_directories, write_synced

_WRITING, _WITHDRAWN = "-writing.tmp", "-withdrawn.tmp"


def write_changelogs(context: Context, executor: Executor) -> None:
    """Write what this host has claimed and is not written yet.

    Raises RefusedError for a topic that is not ours, and BrokerError or ChangelogFailedError where the broker fails.
    """
    with cluster_of(context.spec) as cluster:
        end_writing(cluster, context.home)  # of a command that was killed: its tasks may live on
        if way_of(context.spec, context.conversion) == "append":
            concerns = concerns_of(context.spec, context.standing, context.acceptance)
            require_acceptance(concerns, "nothing is appended to the changelog")
        topics = open_topics(context, cluster)
    contents = contents_of(context.standing.receipts, topics.parts)
    found = context.standing.changelogs.pending(contents)
    pending = [part for part in found if part.store_partition in topics.claimed]
    if pending:
        permit = permit_for(context, (transactional_id(context.plan.migration_id, part) for part in pending))
        work = Work(context, cluster.connection)
        _write(context, executor, (work.task(part, contents[part], permit) for part in pending))
    with cluster_of(context.spec) as cluster:
        end_writing(cluster, context.home)
        _end_in_records(context, cluster)


def _end_in_records(context: Context, cluster: Cluster) -> None:
    """Let each changelog that this host has written end in a record, and record its offset."""
    topics, produced = context.topics, context.standing.changelogs.produced
    written = (each for each in produced if each.store_partition in topics.claimed and each.last_offset is not None)
    newest = {each.store_partition: each for each in sorted(written, key=lambda each: each.last_offset or 0)}
    last = asked_at_once(
        lambda each: ended_in_record(context, cluster, topics.of(each.store_partition), each.last_offset),
        newest.values(),
    )
    moved = [(each, at) for each, at in zip(newest.values(), last, strict=True) if at != each.last_offset]
    if moved:
        context.notify("changelog.written", produced=[])
        context.commit(*(_row(context, each.model_copy(update={"last_offset": at})) for each, at in moved))
        context.notify("changelog.committed")


def ended_in_record(context: Context, cluster: Cluster, changelog: Changelog, last: int | None) -> int | None:
    """The offset of the last record of the new topic, which was at `last`: it is written once more, outside of any
    transaction, where the owner would wait for the marker that is behind it.
    """
    if last is None or not target_system(context.spec).offsets.waits_for_record:
        return last
    settled(cluster, changelog)  # which may have asked for the end just before the marker was there
    end = cluster.ends_of(changelog.new_topic, changelog.number).end
    if end == last + 1:
        return last
    context.ledger.check_not_fenced()
    return end_in_record(cluster.connection, changelog.new_topic, changelog.number, last, end)


def _write(context: Context, executor: Executor, tasks: Iterator[ProduceTask]) -> None:
    """Write these parts; what came since the last commit is committed with the next one, at once on a stop."""
    commits = SharedCommits[Row](context.commit)
    try:
        for finished in run_all(executor, tasks, name=context.spec.name, stop=context.stop):
            fresh = [result for _, result in finished if isinstance(result, Produced)]
            if fresh:
                context.notify("changelog.written", produced=fresh)
            commits.add(*(_row(context, each) for each in fresh))
            if commits.commit() if context.stop.is_requested else commits.commit_due():
                context.notify("changelog.committed")
    finally:
        if commits.commit():
            context.notify("changelog.committed")
    context.stop.check()


def _row(context: Context, receipt: Produced) -> Row:
    return context.ledger.row(
        Step.PRODUCED,
        store_partition=receipt.store_partition,
        detail=receipt,
        database=receipt.database,
        start_key=receipt.keys.start,
        end_key=receipt.keys.end,
        records_out=receipt.records,
        seconds=receipt.seconds,
    )


class Work:
    """What tasks on changelogs are made of."""

    def __init__(self, context: Context, connection: Connection) -> None:
        self.connection, self.topics = connection, context.topics
        self._context, self._plan = context, context.plan
        self._folders, self._overlays = context.new_stores, context.standing.overlays
        self._times = {} if context.conversion.takes_times else context.standing.times

    def _databases(self, partition: str) -> list[DatabasePlan]:
        return kept_databases(self._plan, self._plan.partition(partition))

    def task(self, part: TopicPart, content: str, permit: str) -> ProduceTask:
        partition = part.store_partition
        sizes = (each.data_bytes for each in self._databases(partition) if part.database in ("", each.database))
        parts = [each.database for each in self.topics.parts if each.store_partition == partition]
        return ProduceTask(
            connection=self.connection,
            changelog=self.topics.of(partition),
            part=part,
            content=content,
            transactional_id=transactional_id(self._plan.migration_id, part),
            new=self.new(part),
            has_records=bool(part.database) or len(parts) == 1,
            old=None if part.database else self.old(partition),
            folder=self.folder(partition, "sorted"),
            permit=permit,
            size=sum(sizes) // parts.count(part.database),
        )

    def new(self, part: TopicPart) -> NewEntries:
        """The entries that a part is made of; of a part without a database, all of its store partition."""
        databases = [each for each in self._databases(part.store_partition) if part.database in ("", each.database)]
        folder, times = self._folders[part.store_partition], self._times_of(part.store_partition, databases)
        laid_over = self._overlays.get(part.store_partition)
        overlays = [overlay_of(laid_over, each.database) for each in databases]
        return NewEntries(
            format=self._context.ref_of(part.store_partition).target,
            directories=tuple(str(folder / each.database) for each in databases),
            families=tuple(dict.fromkeys(mapping.target for each in databases for mapping in each.mappings)),
            keys=part.keys,
            times=tuple(str(self._context.home / each.folder) for each in times),
            newest_ms=max((each.newest_ms for each in times if each.newest_ms is not None), default=-1),
            overlays=tuple(str(each) for each in overlays if each is not None),
        )

    def _times_of(self, partition: str, databases: Sequence[DatabasePlan]) -> list[Times]:
        """Those of the store partitions that these RocksDB directories of a new one are made from."""
        olds = {source.partition or partition for each in databases for source in each.inputs} or {partition}
        return [self._times[each] for each in sorted(olds) if each in self._times]

    def old(self, partition: str) -> OldEntries | None:
        """The entries of the old store partition, whose records are in the same topic; None: that is another one."""
        if self.topics.way != "append":
            return None
        snapshots = self._context.snapshots_of(partition)
        databases = [each for each in self._plan.databases if each.store_partition == partition]
        inputs = ((inputs_of(each, snapshots), mapping) for each in databases for mapping in each.mappings)
        return OldEntries(format=self._context.ref.source, inputs=tuple(inputs))

    def reread(self, cluster: Cluster, changelog: Changelog, start: int, ends: Ends) -> RereadTask:
        """The comparison of a changelog, from `start` on, with the new store."""
        partition = changelog.store_partition
        return RereadTask(
            connection=self.connection,
            changelog=changelog,
            start=max(start, ends.start),
            end=ends.end,
            new=self.new(TopicPart(store_partition=partition, database="")),
            old=self.old(partition),
            folder=self.folder(partition, "reread"),
            expired_before=expired_before(cluster, changelog.new_topic),
            dropped_before=self._dropped_before(partition),
            size=sum(each.data_bytes for each in self._databases(partition)),
        )

    def _dropped_before(self, partition: str) -> int | None:
        """The start of the oldest segment that tails have left of those that were written; None: they left all."""
        planned = {each.database for each in self._plan.databases if each.store_partition == partition}
        left = {each.database for each in self._databases(partition)}
        if not self._context.conversion.target.is_segmented or planned <= left:
            return None
        return min((int(name.rpartition(".")[2]) for name in left), default=None)

    def folder(self, partition: str, name: str) -> str:
        """A folder for a task's sorted runs, which does not exist between tasks."""
        return str(self._context.home / CHANGELOG / partition / name)


def announce(context: Context) -> None:
    """Publish this host's progress: copies on other hosts go on from there."""
    standing = context.standing.changelogs
    topics, written = standing.topics, {each.part for each in standing.produced}
    if topics is None or any(each not in written for each in topics.parts if each.store_partition in topics.claimed):
        return
    fleet_of(context.spec, topics).publish("written", standing.last_offsets, reached(context.spec, context.standing))


def transactional_id(migration_id: str, part: TopicPart) -> str:
    """The id under which a part is written: a later attempt ends an earlier one that lives on."""
    start = hashlib.sha256(part.keys.start or b"").hexdigest()[:16]
    return f"stateferry-{migration_id}-{part.store_partition}-{part.database}-{start}"


def permit_for(context: Context, transactional_ids: Iterable[str]) -> str:
    """A new permit. Raises FencedError for a run elsewhere, which has withdrawn the permits that it found."""
    permit = begin_writing(context.home, transactional_ids)
    context.ledger.check_not_fenced()
    return permit


def begin_writing(home: Path, transactional_ids: Iterable[str]) -> str:
    """A new permit, for tasks with these ids."""
    folder = home / CHANGELOG
    make_directories(folder)
    permit = folder / f"{uuid.uuid4().hex[:12]}{_WRITING}"
    write_synced(permit, "\n".join(transactional_ids).encode())
    fsync_directory(folder)
    return str(permit)


def end_writing(cluster: Cluster, home: Path) -> None:
    """Withdraw every permit, and take over its ids; those of commands that were killed, too.

    Raises the cluster's error where that fails: the next call goes on.
    """
    folder = home / CHANGELOG
    for permit in folder.glob(f"*{_WRITING}"):
        permit.rename(permit.with_name(permit.name.replace(_WRITING, _WITHDRAWN)))
    for withdrawn in folder.glob(f"*{_WITHDRAWN}"):
        fsync_directory(folder)
        asked_at_once(cluster.abort_transactions, withdrawn.read_text(encoding="utf-8").splitlines())
        withdrawn.unlink()
