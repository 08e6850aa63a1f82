"""The application at the broker: whether it has stopped, and its group's offsets, which a rollback sets back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from migrate.batch.changelog.broker_access import has_records
from migrate.batch.source.source import Source, application_of, source_system
from migrate.errors import BrokerError, RefusedError
from migrate.kafka.cluster import Cluster, Committed, Ends
from migrate.model.changelogs import Changelog
from migrate.model.display import plural
from migrate.model.journal import GroupOffset
from migrate.model.reports import InconclusiveCheck, SetBack
from migrate.spec.changelog_way import new_names
from migrate.spec.spec import Spec
from migrate.systems.base import ChangelogNames

_REPARTITION = "-repartition"
_MOST_THREADS = 32
"""The stream threads of an instance whose transactions are ended."""
_STOP = (
    "stop every instance of the application, standbys too; one that was killed stays a member until its "
    "session.timeout.ms has passed (45 s by default): wait so long, then run the same command again"
)
_EVERY_INSTANCE = "make sure that every instance has stopped: kafka-streams-groups.sh --describe --members"
_SAY_SO = (
    "check [changelog] application_id, which the group is named by; once every instance has stopped, say so in the "
    'spec: [changelog] application = "stopped"'
)


def hidden_offsets(application: str) -> InconclusiveCheck:
    """What it means that a group is there, and the broker shows no offset of it."""
    return InconclusiveCheck(
        f"the broker shows no offset that group {application} has committed, and rollback could set none back",
        "let this user READ, DESCRIBE and DESCRIBE_CONFIGS the application's inputs (docs/changelogs.md)",
    )


def committed_offsets(cluster: Cluster, application: str) -> tuple[GroupOffset, ...]:
    """What the group has committed, of every topic."""
    now = cluster.committed(application)
    ends = _ends(cluster, [place for place in now if _is_repartition(application, place[0])])
    read_to_its_end = {
        place
        for place, each in ends.items()
        if not has_records(cluster.connection, *place, max(now[place].offset, each.start), each.stable)
    }
    return tuple(
        GroupOffset(
            topic=topic,
            number=number,
            offset=each.offset,
            metadata=each.metadata,
            is_made_again=(topic, number) in read_to_its_end,
        )
        for (topic, number), each in sorted(now.items())
    )


def moved_since(cluster: Cluster, application: str, then: Sequence[GroupOffset]) -> tuple[SetBack, ...]:
    """What the group has to read again so that the old stores get what only the new ones got.

    Records of a repartition topic are made again from the application's inputs: those that are there are passed over.
    What the group had not begun to read it reads from the start. Raises RefusedError where a topic no longer has them.
    """
    known = {(each.topic, each.number): each for each in then}
    now = {place: each.offset for place, each in cluster.committed(application).items()}
    found, there = [], _ends(cluster, now)
    for (topic, number), reached in now.items():
        before, ends = known.get((topic, number)), there.get((topic, number))
        is_made_again = _is_repartition(application, topic) if before is None else before.is_made_again
        if is_made_again:
            offset = reached if ends is None else max(reached, ends.stable)
        else:
            offset = before.offset if before is not None else 0 if ends is None else ends.start
        if offset < reached and (ends is None or ends.start > offset):
            raise _gone(topic, number, offset, ends)
        if offset != reached:
            found.append(SetBack(topic=topic, number=number, offset=offset, records=max(0, reached - offset)))
    forgotten = [each for place, each in known.items() if place not in now]
    found += [SetBack(topic=each.topic, number=each.number, offset=each.offset, records=0) for each in forgotten]
    return tuple(found)


def set_back(cluster: Cluster, application: str, then: Sequence[GroupOffset], moved: Sequence[SetBack]) -> None:
    """Let the group read from there; with the metadata that it had committed."""
    metadata = {(each.topic, each.number, each.offset): each.metadata for each in then}
    offsets = {
        (each.topic, each.number): Committed(each.offset, metadata.get((each.topic, each.number, each.offset), ""))
        for each in moved
    }
    if offsets:
        cluster.set_committed(application, offsets)


def merged(before: Sequence[SetBack], now: Sequence[SetBack]) -> tuple[SetBack, ...]:
    """What an attempt that was killed had set back, and what this one sets back."""
    return tuple({(each.topic, each.number): each for each in (*before, *now)}.values())


def _gone(topic: str, number: int, offset: int, ends: Ends | None) -> RefusedError:
    begins = "is gone" if ends is None else f"begins at offset {ends.start} now"
    return RefusedError(
        f"the group cannot be set back to where it was when the stores were cut over: partition {number} of {topic} "
        f"{begins}, and offset {offset} is needed",
        hint="stateferry rollback SPEC --discard-new-writes leaves the group's offsets as they are: the old stores "
        "then lack what was read since",
    )


def _ends(cluster: Cluster, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Ends]:
    """The ends of those topic partitions that are there."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in places:
        numbers[topic].append(number)
    found: dict[tuple[str, int], Ends] = {}
    for topic, wanted in numbers.items():
        known = cluster.topic(topic)
        there = [number for number in wanted if known is not None and number < known.partitions]
        found |= {(topic, number): ends for number, ends in cluster.ends(topic, there).items()} if there else {}
    return found


def _is_repartition(application: str, topic: str) -> bool:
    return topic.startswith(f"{application}-") and topic.endswith(_REPARTITION)


def check_group(cluster: Cluster, application: str, spec: Spec, *, only_reads: bool = False) -> str | InconclusiveCheck:
    """Raises RefusedError where the application's group has members, and BrokerError where nothing tells.

    The members of a group of Kafka Streams' own protocol are found out by a commit; `only_reads`: not by this command.
    """
    try:
        return _check_group(cluster, application, only_reads=only_reads, may_be_new=bool(spec.source.rows))
    except BrokerError as error:
        if spec.changelog is None or spec.changelog.application != "stopped":
            raise
        return InconclusiveCheck(
            f"{error.message}: that it has stopped is what [changelog] application says", _EVERY_INSTANCE
        )


def _check_group(cluster: Cluster, application: str, *, only_reads: bool, may_be_new: bool) -> str | InconclusiveCheck:
    group = cluster.group(application)
    if group.members:
        hosts = sorted({member.host.lstrip("/") for member in group.members})
        raise RefusedError(
            f"the application runs: group {application} has {plural(len(group.members), 'member')}, on "
            f"{', '.join(hosts)}",
            hint=_STOP,
        )
    if may_be_new and group.state == "DEAD":
        return f"there is no group {application}: the application has not started yet"
    if group.state not in ("DEAD", "UNKNOWN"):
        return f"group {application} has no members"
    if only_reads and cluster.committed(application, stable=False):
        return InconclusiveCheck(
            f"whether group {application} has members cannot be read: run and cutover commit one of its own offsets "
            "unchanged, which is refused while it has some",
            _EVERY_INSTANCE,
        )
    has_members = None if only_reads else cluster.has_members(application)
    if has_members:
        raise RefusedError(f"the application runs: group {application} has members", hint=_STOP)
    if has_members is None:
        raise BrokerError(
            f"nothing tells whether the application runs: the broker shows no offset of a group {application}",
            hint=_SAY_SO,
        )
    return f"group {application} has no members: it takes a commit from outside"


def open_transactions(
    cluster: Cluster, every: Iterable[Changelog], ours: Mapping[str, int]
) -> list[tuple[Changelog, Ends]]:
    """The old changelogs with an open transaction of the application.

    `ours`: by store partition, the first offset of converted records in the same topic; transactions that are open
    from there on are those of a run that was killed, and the next run ends them.
    """
    found = ((each, cluster.ends_of(each.topic, each.number)) for each in every)
    return [
        (each, ends) for each, ends in found if ends.stable < min(ends.end, ours.get(each.store_partition, ends.end))
    ]


def end_transactions(
    cluster: Cluster, spec: Spec, source: Source, every: Iterable[Changelog], ours: Mapping[str, int]
) -> str:
    """End the transactions that dead instances of this host left open in these changelogs; `ours` stay.

    Raises RefusedError while the application's group has members, and where a transaction stays open.
    """
    every = tuple(every)
    if not open_transactions(cluster, every, ours):
        return "no transaction is open"
    check_group(cluster, application_of(spec), spec)
    ids = list(source.system.changelog.transactional_ids(source.path, application_of(spec), _MOST_THREADS))
    ended = 0
    for transactional_id in takewhile(lambda _: open_transactions(cluster, every, ours), ids):
        cluster.abort_transactions(transactional_id)
        ended += 1
    if left := open_transactions(cluster, every, ours):
        whose = "of an instance on another host: run the same command there, or " if ids else ""
        raise open_transaction(left[0], f"it is not of an instance on this host; {whose}wait until it ends")
    return f"ended the transactions of {plural(ended, 'stream thread')} of this host"


def open_transaction(found: tuple[Changelog, Ends], hint: str) -> RefusedError:
    """The error for one of them."""
    each, ends = found
    return RefusedError(
        f"a transaction is open in {each.topic}, partition {each.number}, from offset {ends.stable} on: what the "
        "application wrote there may still be committed",
        hint=hint,
    )


def unread_input(cluster: Cluster, application: str, names: ChangelogNames) -> tuple[list[str], list[str]]:
    """The topics that the application reads, and the places in them with records that its group has not read.

    Inputs are known by what the group has committed, and repartition topics by their names.
    """
    read_up_to, there = cluster.committed(application), cluster.partitions()
    read_once = [name for name in there if names.is_read_once(application, name)]
    topics = sorted({*read_once, *(name for name, _ in read_up_to)} & there.keys())
    unread = []
    for name in topics:
        for number, ends in cluster.ends(name, range(there[name])).items():
            done = read_up_to.get((name, number))
            start = max(ends.start, 0 if done is None else done.offset)
            if ends.end > ends.stable or has_records(cluster.connection, name, number, start, ends.stable):
                unread.append(f"{name}, partition {number}, from offset {start} on")
    return topics, unread


def check_repartition(cluster: Cluster, spec: Spec, every: Iterable[Changelog]) -> str:
    """Raises RefusedError where input waits in a repartition topic that the old store's name names.

    The new code gives that topic the new store's name, unless the grouping has a name of its own.
    """
    names, topics = source_system(spec).changelog, dict.fromkeys(each.topic for each in every)
    renamed = [(old, new) for old, new in new_names(spec).items() if old != new]
    waiting = {names.repartition(topic, old): new for topic in topics for old, new in renamed}
    found = []
    for repartition, new in waiting.items():
        topic = None if repartition is None else cluster.topic(repartition)
        if topic is None:
            continue
        read_up_to = cluster.committed(application_of(spec))
        for number, ends in cluster.ends(topic.name, range(topic.partitions)).items():
            done = read_up_to.get((topic.name, number))
            start = max(ends.start, 0 if done is None else done.offset)
            if ends.end > ends.stable or has_records(cluster.connection, topic.name, number, start, ends.stable):
                raise RefusedError(
                    f"{topic.name}, partition {number}, has input that the application has not read, and with the "
                    f"store named {new} it would read another topic: that input would be lost",
                    hint="start the old application, let it read that topic to its end, and stop it; or give the "
                    "grouping a name (Grouped.as) in the old application first",
                )
        found.append(topic.name)
    return f"{', '.join(found)} read to the end" if found else "no repartition topic has the name of an old store"
