"""An old store from its changelog alone: read to the end, written to the work_dir, and read there as any source.

What is read is pinned before the first record is: each topic partition up to its last stable offset. Each store
partition is made under a name of its own, moved to its place, and recorded: in that order, each step durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from formats.kafka_streams.versioned import default_segment_ms
from migrate.batch.changelog.application_group import check_group
from migrate.batch.changelog.broker_access import asked_at_once, cluster_of, has_records, settled
from migrate.batch.chunk.executor import Executor, ExecutorOpener, executor_opener, run_all
from migrate.batch.chunk.restore_store import HistoryRules, RestoreTask
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import RESTORED_RECORD, claim, remove_folder
from migrate.batch.source.restored_source import START_OVER, restored_record
from migrate.batch.source.source import application_of, source_system
from migrate.errors import ChunkFailedError, FencedError, RefusedError, SpecError, system_errors_explained
from migrate.kafka.cluster import Cluster
from migrate.model.changelogs import Changelog, Segments
from migrate.model.events import Listener, ignore
from migrate.model.reports import RestoreReport
from migrate.model.restored import Pinned, RestoredRecord, RestoredStore
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.model.values import with_seal
from migrate.spec.changelog_source import RESTORED
from migrate.spec.spec import Spec
from migrate.stores.files import fsync_directory, make_directories, remove_tree, write_durably
from migrate.systems.checkpoint_file import OFFSET_UNKNOWN

_ATTEMPTS = f"{RESTORED}/attempts"


@system_errors_explained()
def restore(spec: Spec, *, jobs: int = 1, on_event: Listener = ignore) -> RestoreReport:
    """Make the old store from its changelog, in the work_dir; a killed call is continued by the same call.

    `run` does the same where it is not done yet. The application must be stopped.

    Args:
        spec: a migration with [source] changelog = true, from `load_spec` or built in code.
        jobs: how many processes of this machine work.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: the spec does not ask for it.
        RefusedError: the application runs, the topic is not there, or it is not the one that was read before.
        ChangelogFailedError: the topic cannot be read to its end.
        ChunkFailedError: a record is none of the format.
    """
    if not spec.source.changelog:
        raise SpecError(
            "this migration reads a directory, which needs no changelog to be read",
            hint="to make the old store from its changelog alone: [source] changelog = true",
        )
    context = Context(spec, on_event, jobs=jobs)
    restore_with(executor_opener(spec, None, jobs), context)
    record = restored_record(spec)
    assert record is not None
    return _report(spec, record)


def restore_with(open_executor: ExecutorOpener, context: Context) -> None:
    """Make what is not made yet. Raises as `restore`."""
    spec = context.spec
    with command(context), cluster_of(spec) as cluster:
        record = restored_record(spec)
        if record is not None:
            _check_same(cluster, record)
            if not record.left:
                return
        check_group(cluster, application_of(spec), spec)
        claim(spec.home, spec.home.parent)
        remove_folder(spec.home, _ATTEMPTS)
        if record is None:
            record = _pinned(cluster, spec)
            _store_record(spec, record)
            context.notify("restore.pinned", partitions=len(record.pinned))
        _check_alone(spec, record)
        make_directories(spec.source_path)  # executors look whether they see it
        make_directories(spec.home / _ATTEMPTS)
        with open_executor(spec) as executor:
            _make(context, executor, cluster, record)
        context.notify("restore.finished")


def _make(context: Context, executor: Executor, cluster: Cluster, record: RestoredRecord) -> None:
    spec = context.spec
    tasks = [
        RestoreTask(
            home=str(spec.home),
            folder=_ATTEMPTS,
            connection=cluster.connection,
            pinned=each,
            format=own.source.format,
            segments=_segments(own, each.partition),
            history=_history(own),
        )
        for each in record.left
        for own in (spec.of_store(each.partition.store),)
    ]
    try:
        for store in _in_turn(context, executor, tasks):
            _check_alone(spec, record)
            _move(spec, record, store)
            record = record.with_store(store)
            _store_record(spec, record)
            context.notify("restore.committed", store=store)
    except ChunkFailedError:
        _check_alone(spec, record)  # then it is the reason
        raise
    remove_tree(spec.home / _ATTEMPTS)


def _in_turn(context: Context, executor: Executor, tasks: list[RestoreTask]) -> Iterator[RestoredStore]:
    """The results as they come, so that a kill loses those alone that are not finished."""
    for finished in run_all(executor, tasks, name=context.spec.name, stop=context.stop):
        for _, each in finished:
            if isinstance(each, RestoredStore):
                context.notify("restore.made", store=each)
                yield each
    context.stop.check()


def _move(spec: Spec, record: RestoredRecord, store: RestoredStore) -> None:
    """Put a store partition in its place, with the position up to which it holds its changelog."""
    pinned = next(each for each in record.pinned if each.partition.id == store.store_partition)
    place = spec.source_path / pinned.partition.path
    remove_tree(place)  # of a run that was killed before it recorded it
    make_directories(place.parent)
    Path(spec.home, store.folder, "store").rename(place)
    fsync_directory(place.parent)
    offset = OFFSET_UNKNOWN
    system = source_system(spec)
    if store.last_offset is not None:
        offset = store.last_offset + system.offsets.ahead
    partition = pinned.partition.model_copy(update={"databases": store.databases})
    lines = ChangelogOffsets(lines=((pinned.topic, pinned.number, offset),))
    files = system.offsets.write(spec.source_path, partition, lines, application=application_of(spec))
    for relative, text in files.items():
        if text is not None:
            write_durably(spec.source_path / relative, text.encode())


def _check_alone(spec: Spec, record: RestoredRecord) -> None:
    """Raises FencedError where a command of another host, which no lock keeps out, has changed what is recorded."""
    if restored_record(spec) != record:
        raise FencedError(
            f"another command of this migration is at work in {spec.home}, on another host",
            hint="let it finish, or stop it; then run the command again",
        )


def _pinned(cluster: Cluster, spec: Spec) -> RestoredRecord:
    """Every partition of the topics, up to its last stable offset.

    Raises RefusedError where a topic is not there, ChangelogFailedError for a transaction that stays open.
    """
    topics, found = {}, []
    for store in spec.source.store_names:
        name = source_system(spec).changelog.topic(application_of(spec), _partition(spec, store, 0))
        topic = cluster.topic(name)
        if topic is None:
            raise RefusedError(
                f"there is no topic {name}, which is the changelog of {store!r}",
                hint="check [source] store, and [changelog] application_id and bootstrap",
            )
        topics[name] = topic.id
        for number in range(topic.partitions):
            partition = _partition(spec, store, number)
            changelog = Changelog(store_partition=partition.id, topic=name, new_topic=name, number=number)
            ends = settled(cluster, changelog)
            found.append(Pinned(partition=partition, topic=name, number=number, start=ends.start, end=ends.stable))
    return RestoredRecord(topics=topics, pinned=tuple(found))


def _partition(spec: Spec, store: str, number: int) -> StorePartition:
    system = source_system(spec)
    assert spec.source.subtopology is not None
    task = system.layout.task_name((spec.source.subtopology, number))
    if task is None:
        raise RefusedError(
            f"a store of {system.title} cannot be made from its changelog yet",
            hint="those of Kafka Streams and of Streamiz can be; let the application restore it",
        )
    place = system.place(task, store, is_segmented=spec.of_store(store).source_format.is_segmented)
    return StorePartition(id=f"{task}/{store}", store=store, task=task, path=place)


def _segments(spec: Spec, partition: StorePartition) -> Segments | None:
    if not spec.has_segments:
        return None
    retention_ms = spec.source.retention_ms
    assert retention_ms is not None
    size_ms = source_system(spec).segments.size(retention_ms, spec.source.segment_ms)
    return Segments(partition.store, size_ms, retention_ms, None, {})


def _history(spec: Spec) -> HistoryRules | None:
    if spec.source_format.kind != "versioned":
        return None
    retention_ms = spec.source.retention_ms
    assert retention_ms is not None
    return HistoryRules(retention_ms, spec.source.segment_ms or default_segment_ms(retention_ms))


def _check_same(cluster: Cluster, record: RestoredRecord) -> None:
    """Raises RefusedError unless the topics are those that were read, and hold no more than was read."""
    for name, known in record.topics.items():
        topic = cluster.topic(name)
        if topic is None or topic.id != known:
            what = "is gone" if topic is None else "was made again"
            raise RefusedError(f"topic {name} {what} since its reading began", hint=START_OVER)
    every = asked_at_once(lambda each: cluster.ends_of(each.topic, each.number), record.pinned)
    for each, ends in zip(record.pinned, every, strict=True):
        where = f"{each.topic}, partition {each.number},"
        if ends.end < each.end:
            raise RefusedError(
                f"{where} ends at offset {ends.end}, and was to be read up to {each.end}: it lost records",
                hint=f"is [changelog] bootstrap the application's cluster? else: {START_OVER}",
            )
        if each.store is None and ends.start > each.start:
            raise RefusedError(
                f"{where} begins at offset {ends.start}, and was to be read from {each.start} on: retention removed "
                "records since its reading began",
                hint=START_OVER,
            )
        if ends.stable < ends.end or has_records(cluster.connection, each.topic, each.number, each.end, ends.stable):
            raise RefusedError(
                f"{where} has records from offset {each.end} on, and was read up to there: the application went on",
                hint=f"stop it; {START_OVER}",
            )


def _store_record(spec: Spec, record: RestoredRecord) -> None:
    write_durably(spec.home / RESTORED_RECORD, with_seal(record.model_dump_json(indent=1)).encode())


def _report(spec: Spec, record: RestoredRecord) -> RestoreReport:
    made = [each.store for each in record.pinned if each.store is not None]
    return RestoreReport(
        name=spec.name,
        directory=spec.source_path,
        topics=tuple(record.topics),
        store_partitions=len(made),
        records=sum(each.records for each in made),
        keys=sum(each.keys for each in made),
        tombstones=sum(each.tombstones for each in made),
        expired=sum(each.expired for each in made),
        next_step="stateferry plan SPEC, then stateferry run SPEC",
    )
