"""Which partitions of the old changelogs hold keys, and which of them no host of the migration has written.

A store partition whose directory is gone is in its changelog alone: once the others are cut over, nobody reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from migrate.batch.changelog.broker.claims import fleet_of
from migrate.batch.changelog.broker.records import expired_before
from migrate.errors import RefusedError
from migrate.kafka.claims import Claim, Claims, seen_claims
from migrate.kafka.cluster import Cluster, Ends
from migrate.kafka.reader import read
from migrate.model.changelog.written import Topics, Way
from migrate.model.reports import Held
from migrate.spec.spec import Spec

_AT_ONCE = 8
_SPAN = 1_000
"""Offsets that are read first: mostly one of the last records has a value."""
_BEFORE: dict[Way, str] = {
    "new-topic": "stateferry abandon SPEC, ",
    "append": "stateferry abandon SPEC (it appends the old values again), ",
    "none": "",
}


def held_partitions(
    cluster: Cluster, topics: Topics, claims: Claims, *, missing_only: bool = False
) -> tuple[Held, ...]:
    """The partitions of each old changelog that hold keys with a value; `missing_only`: no other ones are looked at."""
    found = []
    for new, old in topics.names.items():
        if (topic := cluster.topic(old)) is None:
            continue
        here = {each.number for each in topics.changelogs if each.new_topic == new}
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

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = zip(numbers, threads.map(has_keys, numbers), strict=True)
        return sorted(number for number, is_holding in found if is_holding)


def _has_keys(cluster: Cluster, topic: str, number: int, ends: Ends, oldest_ms: int) -> bool:
    """Whether the last record of some key has a value; read from the end, by spans that grow."""
    seen, end, span = set[bytes](), ends.stable, _SPAN
    while end > ends.start:
        start = max(ends.start, end - span)
        last: dict[bytes, bool] = {}
        for batch in read(cluster.connection, topic, number, start, end):
            alive = (value is not None for value in batch.values)
            kept = (is_alive and at >= oldest_ms for is_alive, at in zip(alive, batch.timestamps, strict=True))
            last.update(zip(batch.keys, kept, strict=True))
        if any(is_alive for key, is_alive in last.items() if key not in seen):
            return True
        seen |= last.keys()
        end, span = start, span * 4
    return False
