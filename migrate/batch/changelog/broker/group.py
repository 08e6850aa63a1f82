"""The offsets that the application's group has committed: recorded by a cut-over, set back by a rollback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from migrate.batch.changelog.broker.records import has_records
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Committed, Ends
from migrate.model.journal import GroupOffset
from migrate.model.reports import Doubt, SetBack

_REPARTITION = "-repartition"


def hidden_offsets(application: str) -> Doubt:
    """What it means that a group is there, and the broker shows no offset of it."""
    return Doubt(
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
