"""Who writes what: claims that hosts make at the broker, as offsets that a group of ours commits.

No reader of a topic sees them. They are changed in a transaction whose id is the group's name: of two that change them
at once, one is fenced and looks again. The broker forgets them after offsets.retention.minutes, a week by default.
"""

from __future__ import annotations

import base64
import json
import random
import time
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from migrate.errors import BrokerError
from migrate.kafka.cluster import REQUEST_SECONDS, Cluster, Committed, take_over
from migrate.kafka.connection import Connection, Failures

ClaimState = Literal["writing", "written", "in-use", "given-up"]
Place = tuple[str, int]
"""A topic and the number of its partition."""

_VERSION = 1
_MOST_ATTEMPTS = 20
_TAKEN_OVER = ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a host says of a changelog that it writes for a migration."""

    digest: str
    """Of what all hosts of a migration have in common."""
    owner: str
    """Another one for each folder of a migration."""
    host: str
    state: ClaimState
    reached: int = 0
    """Up to which offset of the old changelog the store is that it writes from."""
    start: int = 0
    """The first offset of its records."""
    last: int | None = None
    """The offset of its last record, once all are written; None: there is none."""
    adopted: Mapping[str, str] = field(default_factory=dict)
    """Hosts whose copies go on from there, by owner."""

    @property
    def holds(self) -> bool:
        """Whether nobody else may write there."""
        return self.state != "given-up"

    @property
    def is_whole(self) -> bool:
        """Whether all is written and compared, so that others may go on from it."""
        return self.state in ("written", "in-use")


Claims = Mapping[Place, Claim]


def seen_claims(cluster: Cluster, group: str) -> Claims:
    """The claims of a group, but for those that are being made at this moment."""
    return {place: claim for place, each in cluster.committed(group).items() if (claim := _read(each))}


def read_claims(connection: Connection, group: str) -> Claims:
    """All claims of a group. Raises BrokerError."""
    return change_claims(connection, group, lambda _: {})


def change_claims(connection: Connection, group: str, change: Callable[[Claims], Claims]) -> Claims:
    """Make claims that follow from those there are, while nobody else changes any; returns all.

    `change` is called again after another host came in between. Raises BrokerError.
    """
    failures = Failures(connection, BrokerError)
    for _ in range(_MOST_ATTEMPTS):
        with failures.explained(f"claim changelogs as group {group}"):
            found = _attempt(connection, failures, group, change)
        if found is not None:
            return found
        time.sleep(random.uniform(0.1, 1.0))
    raise BrokerError(
        f"claims of group {group} are changed by others all the time",
        hint="let the runs on other hosts go on first, then run the same command again",
    )


def _attempt(
    connection: Connection, failures: Failures, group: str, change: Callable[[Claims], Claims]
) -> Claims | None:
    """None: another host came in between."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    try:
        with Cluster(connection) as cluster:
            producer, _ = take_over(connection, failures, group)  # which settles offsets that others left uncertain
            there = seen_claims(cluster, group)
        new = change(there)
        if new:
            consumer = Consumer(connection.settings({"group.id": group}))
            producer.begin_transaction()
            offsets = [TopicPartition(*place, 0, _written(claim)) for place, claim in new.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), REQUEST_SECONDS)
            producer.commit_transaction(REQUEST_SECONDS)
            consumer.close()
    except KafkaException as error:
        if error.args[0].name() in _TAKEN_OVER:
            return None
        raise
    return {**there, **new}


def _written(claim: Claim) -> str:
    return base64.b64encode(json.dumps({"version": _VERSION, **asdict(claim)}).encode()).decode()


def _read(committed: Committed) -> Claim | None:
    """None: it is no claim of a version that this release knows."""
    try:
        fields: dict[str, Any] = json.loads(base64.b64decode(committed.metadata))
        return Claim(**fields) if fields.pop("version") == _VERSION else None
    except (NotBase64, ValueError, TypeError, KeyError, AttributeError):
        return None
