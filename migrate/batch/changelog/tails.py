"""Tails: by which rules their keys become segments, and what they mean for the new changelogs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migrate.batch.changelog.overlay import kept_databases
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.verify import check_equal, settled
from migrate.batch.changelog.ways import changelogs, positions
from migrate.batch.changelog.write import connection_of, transactional_id
from migrate.batch.changelog.writing import begin_writing, end_writing
from migrate.batch.chunk.executor import Executor, run_all
from migrate.batch.chunk.produce import ProduceTask
from migrate.batch.chunk.reread import RereadTask
from migrate.batch.chunk.tail import TailEntries, TailTask
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.batch.plan.target_layout import retention_and_reach
from migrate.batch.source.snapshot import snapshot_record
from migrate.batch.source.source import target_system
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster
from migrate.model.changelog import Changelog, Part, Produced, Reread, Segments, Tail, Topics
from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.plan import Plan
from migrate.spec.allowed import LOST_TOMBSTONES, allowing
from migrate.spec.ways import takes_times

_DELETE_RETENTION_MS = 86_400_000
"""The broker's default of delete.retention.ms."""
_RECORD_BYTES = 100


def rules_of(context: Context, plan: Plan, standing: Standing) -> dict[str, Segments]:
    """The segments of each new store partition that has some, and the rules of their owner."""
    found: dict[str, Segments] = {}
    system = target_system(context.spec)
    for partition in plan.store_partitions if context.conversion.source.is_segmented else ():
        new = plan.new_partition(partition)
        store = new.databases[0].rpartition(".")[0] if new.databases else new.store
        starts = {name: system.segment_start(store, name) for name in new.databases}
        retention, newest = retention_and_reach(context.spec, partition, context.snapshots_of(plan, partition.id))
        if tails := standing.tails.get(partition.id):
            newest = tails[-1].newest_ms
        known = {name: start for name, start in starts.items() if start is not None}
        found[partition.id] = Segments(store, retention.segment_ms, retention.retention_ms, newest, known)
    return found


@dataclass(frozen=True, slots=True)
class _Beginning:
    changelog: Changelog
    number: int
    offset: int | None
    """None: unknown, so that all is read."""
    at_ms: int
    """The time by which everything before it had been written."""


def _beginnings(context: Context, standing: Standing) -> Iterator[_Beginning]:
    at, taken = positions(context.spec), snapshot_record(context.home).taken_at_ms
    times = {(row.store_partition, row.facts["number"]): row.committed_at_ms for row in _rows(standing.rows)}
    for changelog in changelogs(context.spec):
        partition = changelog.store_partition
        if tails := standing.tails.get(partition):
            last = tails[-1]
            yield _Beginning(changelog, last.number + 1, last.end, times[partition, last.number])
        else:
            yield _Beginning(changelog, 1, at[partition], taken)


def _rows(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.step is Step.TAIL]


def tail_tasks(context: Context, plan: Plan, standing: Standing, cluster: Cluster) -> Iterator[TailTask]:
    """The tails to make. Raises RefusedError where a changelog no longer tells all that was written."""
    spec, connection = context.spec, connection_of(context.spec)
    rules = rules_of(context, plan, standing)
    for beginning in _beginnings(context, standing):
        changelog = beginning.changelog
        ends = cluster.ends(changelog.topic, [changelog.number])[changelog.number]
        start = max(beginning.offset or 0, ends.start)
        if beginning.offset is not None and beginning.offset > ends.end:
            raise RefusedError(
                f"{changelog.store_partition} is at {beginning.offset} of {changelog.topic}-{changelog.number}, which "
                f"ends at {ends.end}",
                hint="was the topic made again since? is [changelog] bootstrap the application's cluster?",
            )
        if start >= ends.stable:
            continue
        _check_tombstones(context, cluster, beginning, ends.start)
        database = kept_databases(plan, plan.partition(changelog.store_partition))[-1]
        yield TailTask(
            home=str(context.home),
            folder=f"{CHANGELOG}/{changelog.store_partition}/tail-{beginning.number:04d}",
            run_id=context.run_id,
            connection=connection,
            changelog=changelog,
            number=beginning.number,
            start=start,
            end=ends.stable,
            mapping=database.mappings[0],
            segments=rules.get(changelog.store_partition),
            conversion=context.ref,
            takes_times=takes_times(spec, context.conversion),
            revision=standing.revision_id,
            on_reject=spec.run.on_reject,
            max_rejects=spec.run.max_rejects,
            size=(ends.stable - start) * _RECORD_BYTES,
        )


def _check_tombstones(context: Context, cluster: Cluster, beginning: _Beginning, first: int) -> None:
    """Raises RefusedError where the broker may have removed tombstones of the tail, unless that is allowed."""
    changelog = beginning.changelog
    topic = cluster.topic(changelog.topic)
    settings = {} if topic is None else topic.settings
    kept = int(settings.get("delete.retention.ms", _DELETE_RETENTION_MS))
    age = int(time.time() * 1000) - beginning.at_ms
    where = f"{changelog.topic}-{changelog.number}"
    if beginning.offset is None:
        why = f"nothing states up to where {changelog.store_partition} has applied {where}"
    elif beginning.offset < first:
        why = f"{where} begins at offset {first}, and the tail at {beginning.offset}"
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


@dataclass(frozen=True, slots=True)
class _Writing:
    """What the tasks of this command on new changelogs have in common."""

    context: Context
    migration_id: str
    topics: Topics

    def _entries(self, tail: Tail, *, with_tombstones: bool) -> TailEntries:
        return TailEntries(str(self.context.home), tail, self.context.ref.target, with_tombstones)

    def _folder(self, tail: Tail) -> str:
        return str(self.context.home / CHANGELOG / tail.store_partition / "reread")

    def transactional_id(self, tail: Tail) -> str:
        """All tails of a changelog share an id: each ends lost attempts at those before."""
        return transactional_id(self.migration_id, Part(store_partition=tail.store_partition, database=""))

    def produce(self, tail: Tail, permit: str) -> ProduceTask:
        """The writing of a tail."""
        return ProduceTask(
            connection=connection_of(self.context.spec),
            changelog=self.topics.of(tail.store_partition),
            part=Part(store_partition=tail.store_partition, database=""),
            content=str(tail.number),
            transactional_id=self.transactional_id(tail),
            permit=permit,
            new=self._entries(tail, with_tombstones=True),
            has_records=True,
            old=None,
            folder=self._folder(tail),
        )

    def reread(self, cluster: Cluster, tail: Tail, start: int) -> RereadTask:
        """The reading of a tail, from that offset to the end of the new topic."""
        changelog = self.topics.of(tail.store_partition)
        return RereadTask(
            connection=connection_of(self.context.spec),
            changelog=changelog,
            start=start,
            end=settled(cluster, changelog).end,
            new=self._entries(tail, with_tombstones=False),
            old=self._entries(tail, with_tombstones=True),
            folder=self._folder(tail),
        )


def write_tails(context: Context, executor: Executor, ledger: Ledger, plan: Plan) -> None:
    """Write each tail that has no receipt to the new changelog, in their order, and read it back.

    Raises BrokerError, ChangelogFailedError; VerificationError where the broker does not have it.
    """
    with Cluster(connection_of(context.spec)) as cluster:
        end_writing(cluster, context.home)  # of a command that was killed: its tasks may live on
    while tails := list(_unwritten(Standing(context.home, ledger.rows), ChangelogStanding(ledger.rows))):
        topics = ChangelogStanding(ledger.rows).topics
        assert topics is not None
        writing = _Writing(context, plan.migration_id, topics)
        numbers = {tail.store_partition: tail.number for tail in tails}
        written = []
        permit = begin_writing(context.home, map(writing.transactional_id, tails))
        tasks = (writing.produce(tail, permit) for tail in tails)
        for finished in run_all(executor, tasks, on_start=lambda _: None, stop=context.stop):
            written += [each for _, each in finished if isinstance(each, Produced)]
        context.stop.check()
        if written:
            context.notify("tail.written", receipts=written)
            receipts = (each.model_copy(update={"tail": numbers[each.store_partition]}) for each in written)
            ledger.commit(*(_row(ledger, Step.PRODUCED, each) for each in receipts))
            context.notify("tail.confirmed", receipts=written)
        with Cluster(connection_of(context.spec)) as cluster:
            end_writing(cluster, context.home)
    _read_back(context, executor, ledger, plan)


def _unwritten(standing: Standing, written: ChangelogStanding) -> Iterator[Tail]:
    """The first tail of each store partition without a receipt."""
    done = {(each.store_partition, each.tail) for each in written.produced}
    for partition, tails in standing.tails.items():
        left = [tail for tail in tails if (partition, tail.number) not in done]
        yield from left[:1]


def _read_back(context: Context, executor: Executor, ledger: Ledger, plan: Plan) -> None:
    standing, written = Standing(context.home, ledger.rows), ChangelogStanding(ledger.rows)
    topics = written.topics
    left = [tails[-1] for partition, tails in standing.tails.items() if partition not in written.reread]
    if topics is None or not left:
        return
    writing = _Writing(context, plan.migration_id, topics)
    with Cluster(connection_of(context.spec)) as cluster:
        tasks = [writing.reread(cluster, tail, _start(written, topics, tail)) for tail in left]
    found: list[Reread] = []
    for finished in run_all(executor, tasks, on_start=lambda _: None, stop=context.stop):
        found += [each for _, each in finished if isinstance(each, Reread)]
    context.stop.check()
    before = {each.store_partition: each for each in _comparisons(ledger)}
    if whole := [_with_tail(before[each.store_partition], each) for each in found if each.store_partition in before]:
        ledger.commit(*(_row(ledger, Step.REREAD, each) for each in whole))
        context.notify("tail.verified", found=whole)
    check_equal(found, topics)


def _start(written: ChangelogStanding, topics: Topics, tail: Tail) -> int:
    """The offset behind the last record that was written before this tail."""
    mine = [each for each in written.produced if each.store_partition == tail.store_partition]
    offsets = [each.last_offset for each in mine if each.tail != tail.number and each.last_offset is not None]
    return max(offsets, default=topics.starts[tail.store_partition] - 1) + 1


def _comparisons(ledger: Ledger) -> Iterator[Reread]:
    """Every comparison of a changelog, in the order of commits."""
    for row in ledger.rows:
        if row.step is Step.REREAD:
            yield read_detail(row, Reread, "a comparison of a changelog")


def _with_tail(before: Reread, tail: Reread) -> Reread:
    """The comparison of the whole changelog: what was equal before, and the tail behind it."""
    if not before.ok:
        return before
    return tail.model_copy(update={"records": before.records + tail.records, "expired": before.expired})


def _row(ledger: Ledger, step: Step, found: Produced | Reread) -> Row:
    return ledger.row(step, store_partition=found.store_partition, detail=found.model_dump(mode="json"))
