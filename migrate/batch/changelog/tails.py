"""Tails: by which rules their keys become segments, and what they mean for the new changelogs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from migrate.batch.changelog.broker_access import asked_at_once, cluster_of, expired_before, settled
from migrate.batch.changelog.compare_topics import read_back, row_of
from migrate.batch.changelog.store_changelogs import changelogs, reached
from migrate.batch.changelog.write_topics import end_writing, ended_in_record, permit_for, transactional_id
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.chunk.reread_changelog import RereadTask
from migrate.batch.chunk.tail import TailEntries, TailTask
from migrate.batch.chunk.write_changelog import ProduceTask
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG
from migrate.batch.ledger.standing import Standing
from migrate.batch.plan.new_stores import kept_databases
from migrate.batch.plan.target_layout import retention_and_reach
from migrate.batch.source.snapshot import snapshot_record
from migrate.batch.source.source import source_system, target_system
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Ends
from migrate.model.changelogs import Changelog, Produced, Segments, Tail, TopicPart
from migrate.model.ledger_row import Step
from migrate.model.plan import FamilyMapping
from migrate.spec.allowed import LOST_TOMBSTONES, allowing
from migrate.spec.changelog_way import takes_times

_DELETE_RETENTION_MS = 86_400_000
"""The broker's default of delete.retention.ms."""
_RECORD_BYTES = 100


def _rules(context: Context, before: Standing) -> dict[str, Segments]:
    """The segments of each new store partition that has some, and the rules of their owner."""
    found: dict[str, Segments] = {}
    system, plan = target_system(context.spec), before.plan
    assert plan is not None
    for partition in plan.store_partitions if context.conversion.source.is_segmented else ():
        new = plan.new_partition(partition)
        store = new.databases[0].rpartition(".")[0] if new.databases else new.store
        starts = {name: system.segments.start(store, name) for name in new.databases}
        retention, newest = retention_and_reach(context.spec, partition, context.snapshots_of(partition.id))
        if tails := before.tails.get(partition.id):
            newest = tails[-1].newest_ms
        known = {name: start for name, start in starts.items() if start is not None}
        found[partition.id] = Segments(store, retention.segment_ms, retention.retention_ms, newest, known)
    return found


def tail_tasks(context: Context, before: Standing, cluster: Cluster, every: Mapping[str, Ends]) -> Iterator[TailTask]:
    """The tails to make, which follow those of `before`. Raises RefusedError where a changelog lacks some of them.

    `before`: the standing without the tails that are to be replaced. `every`: by store partition, where its old
    changelog begins and ends.
    """
    spec, plan = context.spec, before.plan
    assert spec.changelog is not None and plan is not None
    rules, at = _rules(context, before), reached(spec, before)
    numbers = Counter(row.store_partition for row in context.standing.rows if row.step is Step.TAIL)
    for changelog in changelogs(spec):
        partition = changelog.store_partition
        offset, ends = at[partition], every[partition]
        if (offset or 0) > ends.end and not source_system(spec).offsets.counts_stops:
            raise RefusedError(
                f"{partition} is at {offset} of {changelog.topic}-{changelog.number}, which ends at {ends.end}",
                hint="was the topic recreated since? is [changelog] bootstrap the application's cluster?",
            )
        start = max(offset or 0, ends.start)
        if start >= ends.stable:
            continue
        _check_tombstones(context, before, cluster, changelog, offset=offset, ends=ends)
        mappings = kept_databases(plan, plan.partition(partition))[-1].mappings
        number = numbers[partition] + 1
        task = tail_task(context, cluster, changelog, mappings, start=start, end=ends.stable, number=number)
        yield replace(task, segments=rules.get(partition), key_place=plan.key_place(partition))


def tail_task(
    context: Context,
    cluster: Cluster,
    changelog: Changelog,
    mappings: tuple[FamilyMapping, ...],
    *,
    start: int,
    end: int,
    number: int = 1,
) -> TailTask:
    """The tail of a changelog with this number, without segments."""
    spec = context.spec
    return TailTask(
        home=str(context.home),
        folder=f"{CHANGELOG}/{changelog.store_partition}/tail-{number:04d}",
        run_id=context.run_id,
        connection=cluster.connection,
        changelog=changelog,
        number=number,
        start=start,
        end=end,
        mappings=mappings,
        segments=None,
        conversion=context.ref,
        takes_times=takes_times(spec, context.conversion),
        revision=context.standing.revision_id,
        on_reject=spec.run.on_reject,
        max_rejects=spec.run.max_rejects,
        max_dropped=spec.most_dropped,
        size=(end - start) * _RECORD_BYTES,
    )


def _check_tombstones(
    context: Context, before: Standing, cluster: Cluster, changelog: Changelog, *, offset: int | None, ends: Ends
) -> None:
    """Raises RefusedError where the broker may have removed tombstones of the tail, unless that is allowed."""
    first, partition, where = ends.start, changelog.store_partition, f"{changelog.topic}-{changelog.number}"
    rows = (row for row in before.rows if row.step is Step.TAIL and row.store_partition == partition)
    written = max((row.committed_at_ms for row in rows), default=snapshot_record(context.home).taken_at_ms)
    topic, age = cluster.topic(changelog.topic), int(time.time() * 1000) - written
    kept = int(({} if topic is None else topic.settings).get("delete.retention.ms", _DELETE_RETENTION_MS))
    if offset is None:
        why = f"nothing states up to where {partition} has applied {where}"
    elif offset < first:
        why = f"{where} begins at offset {first}, and the tail at {offset}"
    elif age > kept:
        why = f"the tail of {where} began {age // 1000:,} s ago, and its delete.retention.ms is {kept // 1000:,} s"
    else:
        return
    if LOST_TOMBSTONES not in context.spec.conversion.allow:
        raise RefusedError(
            f"{why}: the broker may have removed tombstones of it, and keys that were deleted would come back",
            hint="take a new snapshot and start again under another `name`; or accept that: "
            f"{allowing(LOST_TOMBSTONES)}",
        )
    context.warn(f"{why}: keys that were deleted since may come back (allowed by name)")


def write_tails(context: Context, executor: Executor) -> None:
    """Write the tails without a receipt to the new changelogs, and read them back.

    Those of copies are left to the host that has claimed the changelog: the next run adopts what it has written.
    Raises BrokerError, ChangelogFailedError; VerificationError where the broker does not have them.
    """
    tails = context.standing.tails
    left = context.standing.changelogs.unwritten_tails(tails)
    unwritten = [TailBatch(context, context.topics.of(partition), found) for partition, found in left.items()]
    if unwritten:
        with cluster_of(context.spec) as cluster:
            end_writing(cluster, context.home)  # of a command that was killed: its tasks may live on
            found = write_batches(context, executor, cluster, unwritten)
        if found:
            context.notify("tail.written", receipts=found)
            last = {partition: each[-1].number for partition, each in tails.items()}
            receipts = (each.model_copy(update={"tail": last[each.store_partition]}) for each in found)
            context.commit(*(row_of(context, Step.PRODUCED, each) for each in receipts))
            context.notify("tail.confirmed", receipts=found)
    _read_back(context, executor)


def _read_back(context: Context, executor: Executor) -> None:
    topics, written, tails = context.topics, context.standing.changelogs, context.standing.tails
    tasks = []
    with cluster_of(context.spec) as cluster:
        for partition in written.unread_tails:
            read = [each for each in written.produced if each not in written.unread[partition]]
            before = [each for each in read if each.store_partition == partition]
            last = max((each.tail for each in before), default=0)
            offsets = [each.last_offset for each in before if each.last_offset is not None]
            start = max(offsets, default=topics.starts[partition] - 1) + 1
            left = TailBatch(context, topics.of(partition), [each for each in tails[partition] if each.number > last])
            tasks.append(left.reread_task(cluster, start))
    read_back(context, executor, tasks, "tail.verified")


@dataclass(frozen=True, slots=True)
class TailBatch:
    """Some tails of a store partition that follow each other, to be written to its new changelog and read back."""

    context: Context
    changelog: Changelog
    tails: Sequence[Tail]

    @property
    def transactional_id(self) -> str:
        """All tails of a changelog share an id: each ends lost attempts at those before."""
        return transactional_id(self.context.plan.migration_id, self._part)

    def produce_task(self, cluster: Cluster, permit: str) -> ProduceTask:
        return ProduceTask(
            connection=cluster.connection,
            changelog=self.changelog,
            part=self._part,
            content=str(self.tails[-1].number),
            transactional_id=self.transactional_id,
            permit=permit,
            new=self._entries,
            has_records=True,
            old=None,
            folder=self._folder,
        )

    def reread_task(self, cluster: Cluster, start: int | None = None) -> RereadTask:
        """`start`: the offset behind what was written before them; None: nothing was, so no key needs a tombstone."""
        ends = settled(cluster, self.changelog)
        return RereadTask(
            connection=cluster.connection,
            changelog=self.changelog,
            start=ends.start if start is None else start,
            end=ends.end,
            new=self._entries,
            old=None if start is None else self._entries,
            folder=self._folder,
            expired_before=expired_before(cluster, self.changelog.new_topic),
        )

    @property
    def _part(self) -> TopicPart:
        return TopicPart(store_partition=self.changelog.store_partition, database="")

    @property
    def _entries(self) -> TailEntries:
        return TailEntries(str(self.context.home), tuple(self.tails), self.context.ref.target)

    @property
    def _folder(self) -> str:
        return str(self.context.home / CHANGELOG / self.changelog.store_partition / "reread")


def write_batches(
    context: Context, executor: Executor, cluster: Cluster, batches: Sequence[TailBatch]
) -> list[Produced]:
    """Write these, every record confirmed by the broker."""
    permit = permit_for(context, (each.transactional_id for each in batches))
    tasks = [each.produce_task(cluster, permit) for each in batches]
    found = collected(executor, tasks, Produced, name=context.spec.name, stop=context.stop)
    end_writing(cluster, context.home)
    places = {each.changelog.store_partition: each.changelog for each in batches}
    last = asked_at_once(
        lambda each: ended_in_record(context, cluster, places[each.store_partition], each.last_offset), found
    )
    return [each.model_copy(update={"last_offset": at}) for each, at in zip(found, last, strict=True)]
