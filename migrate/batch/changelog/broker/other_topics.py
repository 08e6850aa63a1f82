"""The application's other internal topics: they may hold values of the form that the migration changes.

Buffers of suppress() and of joins, and stores in memory, are in their changelogs alone, from which the new version
restores them; what a repartition topic has for the application, the new version reads. By the names that Kafka Streams
gives: org.apache.kafka.streams.kstream.internals.KTableImpl, for joins by a foreign key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from formats import Conversion
from migrate.batch.changelog.broker.records import MOST_COUNTED, total_of
from migrate.batch.changelog.ways import application_of, new_names
from migrate.batch.source.source import source_system
from migrate.errors import ChangelogFailedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.reader import read
from migrate.model.reports import Behind, Doubt
from migrate.model.units import plural
from migrate.spec.spec import Spec
from migrate.stores.changelog_batch import ChangelogBatch

_AT_ONCE = 8
_CHANGELOG = "-changelog"
_READ_ONCE = re.compile(r"(?:.+-repartition|(?:.*-)?subscription-(?:registration|response)(?:-\d+)?-topic)", re.I)
_FIX = (
    "where they are of the type that changes, let the new version read both forms; or let the old application read and "
    "close what waits before it is stopped; or give them other names in the new version (Suppressed.withName, "
    'Materialized.as, Repartitioned.as); or, if they are meant to stay: [changelog] other_topics = "leave"'
)


def changes_payloads(conversion: Conversion) -> bool:
    """Whether keys or values get another form, in which the application may have them elsewhere, too."""
    return conversion.function is not None or conversion.changes_payloads


def other_stores(spec: Spec) -> tuple[str, ...]:
    """The stores in the tasks of this host that are not migrated."""
    return tuple(sorted(_on_disk(spec) - _migrated(spec)))


def check_other_topics(cluster: Cluster, spec: Spec, conversion: Conversion) -> str | Doubt:
    """Which other internal topics of the application hold records, where keys or values get another form."""
    if not changes_payloads(conversion):
        return "keys and values keep their form"
    found = tuple(_with_records(cluster, spec))
    if not found:
        return "no other internal topic holds records"
    what = f"{plural(len(found), 'internal topic')} of the application beside the migrated: {'; '.join(found)}"
    is_meant = spec.changelog is not None and spec.changelog.other_topics == "leave"
    return f"left as they are: {what}" if is_meant else Doubt(what, _FIX)


def _with_records(cluster: Cluster, spec: Spec) -> Iterator[str]:
    """Those topics, each with the number of its records."""
    application = application_of(spec)
    on_disk = _on_disk(spec) | _migrated(spec)
    read_up_to = {place: each.offset for place, each in cluster.committed(application, stable=False).items()}
    for topic, partitions in sorted(cluster.partitions().items()):
        name = topic.removeprefix(f"{application}-")
        store = name.removesuffix(_CHANGELOG)
        if name == topic:
            continue
        if store != name and store not in on_disk:
            found, why = _count(cluster, topic, partitions, {}, _kept), ", and its store has no directory here"
        elif _READ_ONCE.fullmatch(name):
            found, why = _count(cluster, topic, partitions, read_up_to, _all), " that the application has not read"
        else:
            continue
        if found.records:
            yield f"{topic} holds {found}{why}"


def _migrated(spec: Spec) -> set[str]:
    """The stores' old names, and their new ones."""
    names = new_names(spec)
    return {*names, *names.values()}


def _on_disk(spec: Spec) -> set[str]:
    if not spec.source_path.is_dir():
        return set()
    found = source_system(spec).store_directories(spec.source_path)
    return {each.store for each in found if each.task not in spec.source.leave_out}


def _kept(batches: Iterable[ChangelogBatch]) -> int:
    """How many keys have a value."""
    has_value: dict[bytes, bool] = {}
    for batch in batches:
        has_value.update(zip(batch.keys, (value is not None for value in batch.values), strict=True))
    return sum(has_value.values())


def _all(batches: Iterable[ChangelogBatch]) -> int:
    return sum(map(len, batches))


def _count(
    cluster: Cluster,
    topic: str,
    partitions: int,
    read_up_to: Mapping[tuple[str, int], int],
    count: Callable[[Iterable[ChangelogBatch]], int],
) -> Behind:
    """The records of a topic; by their offsets, which are more, where they are many or cannot be read."""
    ends = cluster.ends(topic, range(partitions))
    starts = {number: max(each.start, read_up_to.get((topic, number), 0)) for number, each in ends.items()}
    left = {number: each.stable - starts[number] for number, each in ends.items() if each.stable > starts[number]}

    def counted(number: int) -> Behind:
        try:
            batches = read(cluster.connection, topic, number, starts[number], ends[number].stable)
            return Behind(records=count(batches))
        except ChangelogFailedError:  # by a user who may not, or without keys
            return Behind(records=left[number], is_most=True)

    if sum(left.values()) > MOST_COUNTED:
        return Behind(records=sum(left.values()), is_most=True)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return total_of(threads.map(counted, left))
