"""The application's group: that nobody is in it, and the offsets that it has committed, before and after a switch."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Committed, Ends
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.model.journal import GroupOffset
from migrate.model.reports import SetBack

_EMPTY = ("EMPTY", "DEAD")
_REPARTITION = "-repartition"


def check_stopped(cluster: Cluster, application: str) -> None:
    """Raises RefusedError while an instance of the application is in its group, or may be."""
    group = cluster.group(application)
    if group.members or group.state not in _EMPTY:
        found = ", ".join(f"{each.client} on {each.host}" for each in group.members[:3]) or "members that it hides"
        raise RefusedError(
            f"the application's group {application} is {group.state}, with {len(group.members) or 'some'} members: "
            f"{found}",
            hint="stop every instance, on all hosts; one that was killed stays in the group until session.timeout.ms "
            "is over, 45 seconds unless it is configured",
        )


def committed_offsets(cluster: Cluster, connection: Connection, application: str) -> tuple[GroupOffset, ...]:
    """What the group has committed, of every topic."""
    return tuple(
        GroupOffset(
            topic=topic,
            number=number,
            offset=each.offset,
            metadata=each.metadata,
            is_made_again=_is_repartition(application, topic)
            and _is_read_to_its_end(cluster, connection, topic, number, each.offset),
        )
        for (topic, number), each in sorted(cluster.committed(application).items())
    )


def moved_since(cluster: Cluster, application: str, then: Sequence[GroupOffset]) -> tuple[SetBack, ...]:
    """What the group has to read again so that the old stores get what only the new ones got.

    Records of a repartition topic are made again from the application's inputs: those that are there are passed over.
    What the group had not begun to read it reads from the start. Raises RefusedError where a topic no longer has them.
    """
    known = {(each.topic, each.number): each for each in then}
    now = {(topic, number): each.offset for (topic, number), each in cluster.committed(application).items()}
    found = []
    for (topic, number), reached in now.items():
        before, ends = known.get((topic, number)), _ends(cluster, topic, number)
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
    found = {(each.topic, each.number): each for each in before}
    return tuple({**found, **{(each.topic, each.number): each for each in now}}.values())


def _gone(topic: str, number: int, offset: int, ends: Ends | None) -> RefusedError:
    begins = "is gone" if ends is None else f"begins at offset {ends.start} now"
    return RefusedError(
        f"the group cannot be set back to where it was when the stores were cut over: partition {number} of {topic} "
        f"{begins}, and offset {offset} is needed",
        hint="stateferry rollback SPEC --discard-new-writes leaves the group's offsets as they are: the old stores "
        "then lack what was read since",
    )


def _ends(cluster: Cluster, topic: str, number: int) -> Ends | None:
    known = cluster.topic(topic)
    return cluster.ends(topic, [number])[number] if known is not None and number < known.partitions else None


def _is_repartition(application: str, topic: str) -> bool:
    return topic.startswith(f"{application}-") and topic.endswith(_REPARTITION)


def _is_read_to_its_end(cluster: Cluster, connection: Connection, topic: str, number: int, offset: int) -> bool:
    ends = _ends(cluster, topic, number)
    return ends is not None and not has_records(connection, topic, number, max(offset, ends.start), ends.stable)


def has_records(connection: Connection, topic: str, number: int, start: int, end: int) -> bool:
    """Whether a consumer would find a record there; markers of transactions are none."""
    return any(len(batch) for batch in read(connection, topic, number, start, end))
