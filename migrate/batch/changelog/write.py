"""Write the changelogs of the new stores: every part without a receipt, each confirmed by the broker, then recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.topics import NewStores, mark_in_progress, open_topics
from migrate.batch.chunk.changelog_entries import NewEntries, OldEntries
from migrate.batch.chunk.executor import Executor, run_all
from migrate.batch.chunk.produce import ProduceTask
from migrate.batch.chunk.reader import inputs_of
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG
from migrate.batch.ledger.gates import concerns_of, require_acceptance
from migrate.batch.ledger.intervals import totals_of
from migrate.batch.ledger.shared_commits import SharedCommits
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.errors import BrokerError, ChangelogFailedError, MigrationError, RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection, read_connection
from migrate.model.changelog import Part, Produced, Topics
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import Plan
from migrate.spec.spec import Spec


def write_changelogs(context: Context, executor: Executor, ledger: Ledger, stores: NewStores) -> Topics:
    """Write what is not written yet, and return the topics.

    Raises RefusedError for a topic that is not ours, ChangelogFailedError where the broker does not confirm a record.
    """
    connection = connection_of(context.spec)
    try:
        with Cluster(connection) as cluster:
            topics = _opened(context, ledger, cluster, stores)
    except BrokerError as error:
        raise ChangelogFailedError(error.message, hint=error.hint) from error
    contents = stores.contents(topics.parts)
    pending = ChangelogStanding(ledger.rows).pending(contents)
    tasks = (_task(context, connection, topics, stores, part, contents[part]) for part in pending)
    written = _Written(context, ledger)
    try:
        for finished in run_all(
            executor, tasks, on_start=lambda _: None, name=context.spec.name, stop=context.stop
        ):
            written.add([result for _, result in finished if isinstance(result, Produced)])
    except MigrationError:
        written.commit()
        raise
    written.commit()
    context.stop.check()
    return topics


def connection_of(spec: Spec) -> Connection:
    """How to reach the broker that the spec names. Raises SpecError."""
    assert spec.changelog is not None
    config = spec.changelog.config
    return read_connection(spec.changelog.bootstrap, None if config is None else spec.resolve(config))


def new_entries(context: Context, stores: NewStores, part: Part) -> NewEntries:
    """What a part is made of."""
    databases = [
        each for each in stores.databases(part.store_partition) if part.database in ("", each.database)
    ]
    folder = stores.folders[part.store_partition]
    return NewEntries(
        format=context.ref.target,
        directories=tuple(str(folder / each.database) for each in databases),
        families=tuple(dict.fromkeys(mapping.target for each in databases for mapping in each.mappings)),
        keys=part.keys,
    )


def old_entries(context: Context, plan: Plan, partition: str) -> OldEntries:
    """What the old store has, all of it."""
    snapshots = context.snapshots_of(plan, partition)
    databases = [each for each in plan.databases if each.store_partition == partition]
    inputs = ((inputs_of(each, snapshots), mapping) for each in databases for mapping in each.mappings)
    return OldEntries(format=context.ref.source, inputs=tuple(inputs))


def scratch(context: Context, partition: str, name: str) -> str:
    """A folder for a task's sorted runs, which does not exist between tasks."""
    return str(context.home / CHANGELOG / partition / name)


def _opened(context: Context, ledger: Ledger, cluster: Cluster, stores: NewStores) -> Topics:
    is_history = context.conversion.target.changelog_form.is_in_order_of_time
    is_append = context.spec.changelog is not None and context.spec.changelog.way == "append"
    if is_append and is_history:
        raise RefusedError(
            '[changelog] way = "append" does not go with a versioned store: a restore passes over versions that are '
            "older than what lies before them in the topic",
            hint="name a new store in [target] store: its changelog is a new topic",
        )
    if is_append:
        standing = Standing(context.home, ledger.rows)
        concerns = concerns_of(context.spec, standing, totals_of(list(stores.receipts)), context.acceptance)
        require_acceptance(concerns, "nothing is appended to the changelog")
    topics = open_topics(context, ledger, cluster, stores)
    if is_append:
        mark_in_progress(cluster, context.spec.name, stores.plan.migration_id, topics)
    return topics


def _task(
    context: Context, connection: Connection, topics: Topics, stores: NewStores, part: Part, content: str
) -> ProduceTask:
    is_of_tombstones = topics.way == "append" and not part.database
    partition = part.store_partition
    place = f"{partition}-{part.database}-{hashlib.sha256(part.keys.start or b'').hexdigest()[:16]}"
    sizes = [
        each.data_bytes for each in stores.databases(partition) if part.database in ("", each.database)
    ]
    count = sum((each.store_partition, each.database) == (partition, part.database) for each in topics.parts)
    return ProduceTask(
        connection=connection,
        changelog=topics.of(partition),
        part=part,
        content=content,
        transactional_id=f"stateferry-{stores.plan.migration_id}-{place}",
        new=new_entries(context, stores, part),
        old=old_entries(context, stores.plan, partition) if is_of_tombstones else None,
        folder=scratch(context, partition, "sorted"),
        size=sum(sizes) // count,
    )


class _Written:
    """Commits of the receipts that came since the last one."""

    def __init__(self, context: Context, ledger: Ledger) -> None:
        self._context = context
        self._ledger = ledger
        self._commits = SharedCommits(ledger)

    def add(self, fresh: Sequence[Produced]) -> None:
        """Commit these with the next ones; at once on a stop."""
        if fresh:
            self._context.notify("changelog.written", receipts=fresh)
        self._commits.add(*map(self._row, fresh))
        if self._context.stop.is_requested:
            self.commit()
        elif self._commits.commit_due():
            self._context.notify("changelog.committed")

    def commit(self) -> None:
        """Commit what waits, now."""
        if self._commits.commit():
            self._context.notify("changelog.committed")

    def _row(self, receipt: Produced) -> Row:
        return self._ledger.row(Step.PRODUCED, store_partition=receipt.store_partition).model_copy(
            update={
                "database": receipt.database,
                "start_key": receipt.keys.start,
                "end_key": receipt.keys.end,
                "records_out": receipt.records,
                "seconds": receipt.seconds,
                "detail": receipt.model_dump_json(),
            }
        )
