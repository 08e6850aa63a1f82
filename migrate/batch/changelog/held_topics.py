"""Which partitions of the old changelogs hold keys, which of them no host has written, and what a catch-up would bring.

A store partition whose directory is gone is in its changelog alone: once the others are cut over, nobody reads it.

The application's other internal topics may hold values of the form that the migration changes. Buffers of suppress()
and of joins, and stores in memory, are in their changelogs alone, from which the new version restores them; what a
repartition topic has for the application, the new version reads. They are known by the names that Kafka Streams gives:
org.apache.kafka.streams.kstream.internals.KTableImpl, for joins by a foreign key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from formats import Conversion
from migrate.batch.changelog.broker_access import (
    MOST_COUNTED,
    asked_at_once,
    connection_of,
    expired_before,
    tail_after,
    total_of,
)
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.store_changelogs import reached
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.source import application_of, source_system
from migrate.errors import BrokerError, ChangelogFailedError, MigrationError, RefusedError
from migrate.kafka.claims import Claim, Claims, seen_claims
from migrate.kafka.cluster import Cluster, Ends
from migrate.kafka.reader import read
from migrate.model.changelogs import Topics, Way
from migrate.model.display import plural
from migrate.model.reports import Behind, Held, InconclusiveCheck
from migrate.spec.changelog_way import new_names
from migrate.spec.spec import Spec
from migrate.stores.batch import ChangelogBatch

_SECONDS = 2.0
"""A broker that takes no connection within this time does not answer to `ask_broker`."""
_SPAN = 1_000
"""Offsets that are read first: mostly one of the last records has a value."""
_BEFORE: dict[Way, str] = {
    "new-topic": "stateferry abandon SPEC, ",
    "append": "stateferry abandon SPEC (it appends the old values again), ",
    "none": "",
}
_FIX_OTHER_TOPICS = (
    "where they are of the type that changes, let the new version read both forms; or let the old application read and "
    "close what waits before it is stopped; or give them other names in the new version (Suppressed.withName, "
    'Materialized.as, Repartitioned.as); or, if they are meant to stay: [changelog] other_topics = "leave"'
)


def held_partitions(
    cluster: Cluster, topics: Topics, claims: Claims, *, missing_only: bool = False
) -> tuple[Held, ...]:
    """The partitions of each old changelog that hold keys with a value; `missing_only`: no other ones are looked at."""
    found = []
    for new, old in () if topics.is_first else topics.names.items():
        if (topic := cluster.topic(old)) is None:
            continue
        mine = [each for each in topics.changelogs if each.new_topic == new]
        is_split = any(each.is_split for each in mine)  # from every old partition
        here = {*range(topic.partitions)} if is_split else {each.number for each in mine}
        missing = _unwritten(cluster, topics, new, {*range(topic.partitions)} - here, claims)
        holding = _holding(cluster, old, missing if missing_only else range(topic.partitions))
        found.append(
            Held(
                topic=old,
                here=tuple(number for number in holding if number in here),
                elsewhere=tuple(number for number in holding if number not in here),
                missing=tuple(number for number in holding if number in missing),
            )
        )
    return tuple(found)


def missing_partitions(cluster: Cluster, spec: Spec, topics: Topics) -> tuple[Held, ...]:
    """Those with partitions that no host of the migration has written."""
    claims = seen_claims(cluster, fleet_of(spec, topics).group)
    return tuple(each for each in held_partitions(cluster, topics, claims, missing_only=True) if each.missing)


def check_none_missing(cluster: Cluster, spec: Spec, topics: Topics) -> tuple[Held, ...]:
    """What is left behind since the spec says so. Raises RefusedError where a partition is missing and it does not."""
    missing = missing_partitions(cluster, spec, topics)
    if missing and (spec.changelog is None or spec.changelog.missing != "leave"):
        raise RefusedError(
            f"{in_words(missing)}: the new version would go on without these keys", hint=ways_out(topics.way)
        )
    return missing


def ways_out(way: Way, *, has_begun: bool = True) -> str:
    """What can be done about partitions that are missing. `has_begun`: whether a run has written changelogs."""
    rebuild = '[changelog] missing = "rebuild", and stateferry run SPEC converts them from their changelog; or '
    return (
        "stateferry run SPEC on the host that has them; if no host has them: "
        f"{rebuild if way == 'new-topic' else ''}{_BEFORE[way] if has_begun else ''}start the old application once so "
        "that it restores them, stop it, and stateferry run SPEC; if these keys may go: "
        '[changelog] missing = "leave"'
    )


def in_words(missing: Collection[Held]) -> str:
    """The partitions that are missing."""
    return "; ".join(each.missing_in_words for each in missing)


def left_behind(missing: Collection[Held]) -> str:
    """What is to be said of partitions that the spec leaves behind."""
    return f'{in_words(missing)}: they are left behind ([changelog] missing = "leave")'


def _unwritten(cluster: Cluster, topics: Topics, new: str, numbers: set[int], claims: Claims) -> set[int]:
    """The partitions that no host has written; where a claim has expired, the new partition's records tell."""
    old, there = topics.names[new], cluster.topic(new) if topics.way == "new-topic" else None
    ends = {} if there is None else cluster.ends(new, numbers & {*range(there.partitions)})
    return {number for number in numbers if not _is_written(claims.get((old, number)), ends.get(number))}


def _is_written(claim: Claim | None, ends: Ends | None) -> bool:
    return claim.is_whole if claim is not None else ends is not None and ends.end > 0


def _holding(cluster: Cluster, topic: str, numbers: Collection[int]) -> list[int]:
    """The partitions with a key that has a value, beside what the topic's retention may remove at any time."""
    ends, expired = cluster.ends(topic, numbers) if numbers else {}, expired_before(cluster, topic)

    def has_keys(number: int) -> bool:
        return _has_keys(cluster, topic, number, ends[number], -1 if expired is None else expired)

    found = zip(numbers, asked_at_once(has_keys, numbers), strict=True)
    return sorted(number for number, is_holding in found if is_holding)


def _has_keys(cluster: Cluster, topic: str, number: int, ends: Ends, oldest_ms: int) -> bool:
    """Whether the last record of some key has a value; read from the end, by spans that grow."""
    seen, end, span = set[bytes](), ends.stable, _SPAN
    while end > ends.start:
        start = max(ends.start, end - span)
        last: dict[bytes, bool] = {}
        for batch in read(cluster.connection, topic, number, start, end):
            entries = zip(batch.keys, batch.values, batch.timestamps, strict=True)
            last |= {key: value is not None and at >= oldest_ms for key, value, at in entries}
        if any(is_alive for key, is_alive in last.items() if key not in seen):
            return True
        seen |= last.keys()
        end, span = start, span * 4
    return False


def changes_payloads(conversion: Conversion) -> bool:
    """Whether keys or values get another form, in which the application may have them elsewhere, too."""
    return conversion.function is not None or conversion.changes_payloads


def other_stores(spec: Spec) -> tuple[str, ...]:
    """The stores in the tasks of this host that are not migrated."""
    return tuple(sorted(_on_disk(spec) - _migrated(spec)))


def check_other_topics(cluster: Cluster, spec: Spec, conversion: Conversion) -> str | InconclusiveCheck:
    """Which other internal topics of the application hold records, where keys or values get another form."""
    if not changes_payloads(conversion):
        return "keys and values keep their form"
    found = tuple(_with_records(cluster, spec))
    if not found:
        return "no other internal topic holds records"
    what = f"{plural(len(found), 'internal topic')} of the application beside the migrated: {'; '.join(found)}"
    is_meant = spec.changelog is not None and spec.changelog.other_topics == "leave"
    return f"left as they are: {what}" if is_meant else InconclusiveCheck(what, _FIX_OTHER_TOPICS)


def _with_records(cluster: Cluster, spec: Spec) -> Iterator[str]:
    """Those topics, each with the number of its records."""
    application, names = application_of(spec), source_system(spec).changelog
    on_disk = _on_disk(spec) | _migrated(spec)
    read_up_to = {place: each.offset for place, each in cluster.committed(application, stable=False).items()}
    for topic, partitions in sorted(cluster.partitions().items()):
        store = names.store(application, topic)
        if store is not None and store not in on_disk:
            found, why = _count(cluster, topic, partitions, {}, _kept), ", and its store has no directory here"
        elif names.is_read_once(application, topic):
            every = _count(cluster, topic, partitions, read_up_to, lambda batches: sum(map(len, batches)))
            found, why = every, " that the application has not read"
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
    found = source_system(spec).discovery.store_directories(spec.source_path)
    return {each.store for each in found if each.task not in spec.source.leave_out}


def _kept(batches: Iterable[ChangelogBatch]) -> int:
    """How many keys have a value."""
    has_value: dict[bytes, bool] = {}
    for batch in batches:
        has_value.update(zip(batch.keys, (value is not None for value in batch.values), strict=True))
    return sum(has_value.values())


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
    return total_of(asked_at_once(counted, left))


def ask_broker(spec: Spec, standing: Standing) -> tuple[Behind | None, tuple[Held, ...]]:
    """What a catch-up would read now, and which partitions of the old changelogs hold keys. Never fails.

    (None, ()) once the new stores are in use, and while no changelog is written to.
    """
    topics = standing.changelogs.topics
    if topics is None or spec.changelog is None or standing.is_live:
        return None, ()
    held: tuple[Held, ...] = ()
    try:
        connection = connection_of(spec)
        if not connection.is_reachable(_SECONDS):
            raise BrokerError("the broker does not answer")
        with Cluster(connection) as cluster:
            with suppress(MigrationError):
                held = held_partitions(cluster, topics, seen_claims(cluster, fleet_of(spec, topics).group))
            return _behind(spec, standing, cluster, topics), held
    except MigrationError as error:
        return Behind(unknown=error.message) if topics.way == "new-topic" else None, held


def _behind(spec: Spec, standing: Standing, cluster: Cluster, topics: Topics) -> Behind | None:
    """None: there is nothing to catch up with."""
    if topics.way != "new-topic" or spec.target.partitions is not None:
        return None
    at = reached(spec, standing)
    ends = {each: cluster.ends_of(each.topic, each.number) for each in topics.changelogs}
    return total_of(tail_after(cluster.connection, each, at[each.store_partition], ends[each]) for each in ends)
