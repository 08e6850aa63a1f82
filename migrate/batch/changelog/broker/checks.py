"""What must hold at the broker before a migration's changelogs are written; `preflight/changelog.py` names each check.

What a client cannot ask is a `Doubt`: said, and never passed as checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property

from formats import Conversion
from migrate.batch.changelog.broker.group import hidden_offsets
from migrate.batch.changelog.broker.stopped import (
    check_group,
    check_repartition,
    end_transactions,
    open_transaction,
    open_transactions,
)
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.times import checked_end, lost_beginning
from migrate.batch.changelog.topics import check_not_foreign, existing
from migrate.batch.changelog.ways import application_of, changelogs, positions, reached, way_of
from migrate.batch.changelog.write import connection_of
from migrate.batch.source.source import Source
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Ends, Topic
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.model.changelog.written import Changelog, Topics, Way
from migrate.model.reports import Behind, Doubt
from migrate.model.units import plural, size
from migrate.spec.allowed import LOST_TOMBSTONES, allowing
from migrate.spec.spec import Spec
from migrate.spec.ways import check_catch_up

MOST_COUNTED = 100_000
"""A longer tail is not read: its offsets say how many records it has at most."""
_FENCE = (
    "wait until it ends (transaction.timeout.ms: 10 s by default in Kafka Streams), then run the same command again; "
    "or end what dead instances of this host left open: --fence, with run or cutover"
)
_CATCH_UP = "after the run, and before the cut-over: stateferry catch-up SPEC brings these records"
_RIGHTS = "docs/changelogs.md lists the rights that each way needs"


@dataclass
class AtBroker:
    """The facts about a migration's changelogs, each asked for once; `close` ends the connection."""

    spec: Spec
    conversion: Conversion
    source: Source
    written: ChangelogStanding
    """What earlier runs wrote."""
    tails: dict[str, Behind] = field(default_factory=dict, init=False)
    """By store partition, what its changelog has more than the store; empty before `position` has asked."""
    _open: ExitStack = field(default_factory=ExitStack, init=False)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster, connected when it is first asked."""
        return self._open.enter_context(Cluster(self.connection))

    def close(self) -> None:
        """End the connection; another question makes a new one."""
        self._open.close()
        self.__dict__.pop("cluster", None)

    @cached_property
    def way(self) -> Way:
        """How the changelogs come to fit the new stores."""
        return way_of(self.spec, self.conversion)

    @cached_property
    def connection(self) -> Connection:
        """How the broker is reached."""
        return connection_of(self.spec)

    @cached_property
    def changelogs(self) -> tuple[Changelog, ...]:
        """Those of the store partitions of this host."""
        return changelogs(self.spec, self.source)

    @cached_property
    def old_topics(self) -> dict[str, Topic]:
        """The old topics by name. Raises RefusedError where one does not exist."""
        return {name: existing(self.cluster, name) for name in dict.fromkeys(each.topic for each in self.changelogs)}

    def ends(self, each: Changelog) -> Ends:
        """Where the old changelog of a store partition begins, and ends as far as the application wrote it."""
        found = self.cluster.ends_of(each.topic, each.number)
        own_end = self._ours.get(each.store_partition)
        if own_end is None:
            return found
        return Ends(found.start, min(found.stable, own_end), min(found.end, own_end))

    @property
    def _ours(self) -> Mapping[str, int]:
        """By store partition, the first offset of converted records, where the old topic has them."""
        topics = self.written.topics
        return {} if topics is None or topics.way != "append" else topics.starts

    @property
    def is_behind(self) -> bool:
        """Whether a catch-up has something to bring, once `position` has asked."""
        return self.way != "none" and any(each.records for each in self.tails.values())

    # The checks, in their order

    def reachable(self) -> str:
        """That the broker answers."""
        self.cluster  # noqa: B018 - connects
        return self.connection.bootstrap

    def group(self) -> str | Doubt:
        """That the application's group has no members."""
        return check_group(self.cluster, application_of(self.spec))

    def transactions(self, *, fence: bool) -> str:
        """That no transaction is open in the old changelogs; `fence`: dead instances' of this host are ended."""
        if fence:
            return end_transactions(self.cluster, self.spec, self.source, self.changelogs, self._ours)
        if open_now := open_transactions(self.cluster, self.changelogs, self._ours):
            raise open_transaction(open_now[0], _FENCE)
        return "the last stable offset of every changelog is its end"

    def topics(self) -> str:
        """That the old topics are there, with a partition for each task, and are those of earlier runs."""
        for each in self.changelogs:
            topic = self.old_topics[each.topic]
            if each.number >= topic.partitions:
                raise RefusedError(
                    f"{each.store_partition} has partition {each.number} of {each.topic}, which has only "
                    f"{plural(topic.partitions, 'partition')}",
                    hint="the topic is not this application's, or was made again: check [changelog] application_id and "
                    "`bootstrap`",
                )
            ours = self.written.topics
            if ours is not None and ours.ids.get(topic.name, topic.id) != topic.id:
                raise RefusedError(
                    f"{topic.name} is not the topic that it was when this migration began: it was made again since",
                    hint="stateferry abandon SPEC, then stateferry run SPEC starts over with the store as it is now",
                )
        return ", ".join(
            f"{name} ({plural(topic.partitions, 'partition')}, {self._tasks(name)} of this host)"
            for name, topic in self.old_topics.items()
        )

    def _tasks(self, topic: str) -> int:
        return sum(each.topic == topic for each in self.changelogs)

    def position(self) -> str | Doubt:
        """That every store has what its changelog has; or how many records it is behind, which is no failure."""
        stated = reached(self.spec, self.written.rows, self.source)
        behind: list[str] = []
        ahead: list[str] = []
        gone: list[str] = []
        for each in self.changelogs:
            ends = self.ends(each)
            position = stated[each.store_partition]
            gone += self._gone(each, position, ends)
            if position is not None and position > ends.end:
                ahead.append(_ahead(each, position, ends, may_be=self.source.system.ahead > 0))
            tail = self.tails[each.store_partition] = tail_after(self.connection, each, position or 0, ends)
            if tail.records:
                behind.append(f"{each.store_partition} is {tail} behind {each.topic}")
        if self.is_behind:
            check_catch_up(self.spec, self.conversion, "; ".join(behind))
        return _positions_in_words(ahead, gone, behind) or self._behind_in_words("; ".join(behind))

    def _behind_in_words(self, behind: str) -> str | Doubt:
        if not behind:
            return "every store has all that its changelog has"
        if self.way == "none":
            return f"{behind}: the application replays these records"
        return f"{behind}; {_CATCH_UP}" if self.spec.run.source == "snapshot" else Doubt(behind, _CATCH_UP)

    def _gone(self, each: Changelog, position: int | None, ends: Ends) -> list[str]:
        """What its changelog has lost, where that is allowed.

        Raises RefusedError where the store, and what follows its position, are not the whole state.
        """
        if self.way == "none":
            return []
        partition = next(found for found in self.source.partitions if found.id == each.store_partition)
        problem = None
        if self.spec.run.source == "live" and not self.source.system.ahead:
            problem = self.source.system.position_problem(self.source.path, partition)
        if problem is None and position is None:
            problem = "nothing states its position in the changelog"
        if problem is not None and (position is not None or ends.end > ends.start):
            raise RefusedError(
                f"{each.store_partition}: {problem}, so its files alone are not the state",
                hint="start the old application, let it restore, and stop it cleanly; then run the same command again",
            )
        if (position or 0) >= ends.start:
            return []
        gone = (
            f"{each.store_partition} is at {position or 0} of {each.topic}, partition {each.number}, which begins "
            f"at {ends.start} by now: its retention has removed records that the store lacks"
        )
        if LOST_TOMBSTONES in self.spec.conversion.allow:
            return [f"{gone} (allowed by name)"]
        raise RefusedError(
            gone,
            hint="start the old application, let it catch up, and stop it cleanly; then run the same command again; or "
            f"accept that keys which were deleted come back: {allowing(LOST_TOMBSTONES)}",
        )

    def times(self) -> str | Doubt:
        """That the time of each key's last record is still in the old changelogs."""
        stated = positions(self.spec, self.source)
        lost = []
        for each in self.changelogs:
            ends = self.ends(each)
            checked_end(each, stated[each.store_partition], ends)
            lost += [lost_beginning(each, ends, self.spec, self.conversion)]
        if found := [sentence for sentence in lost if sentence is not None]:
            return Doubt("; ".join(found), "know that these keys get another time; nothing brings theirs back")
        return "every changelog begins at its first record"

    def settings(self) -> str | Doubt:
        """That what is written is kept, and can be written at all."""
        doubts = []
        for name, topic in self.old_topics.items():
            if self.way != "none" and topic.min_insync_replicas > topic.replication:
                raise RefusedError(
                    f"{name} has {plural(topic.replication, 'replica')} and min.insync.replicas = "
                    f"{topic.min_insync_replicas}: nothing can be written to it, nor to a topic like it",
                    hint="lower min.insync.replicas, or give the topic more replicas",
                )
            policy = topic.settings.get("cleanup.policy", "")
            if "compact" not in policy:
                doubts.append(f"{name} is not compacted (cleanup.policy = {policy or 'the default of the broker'})")
            retention, wanted = topic.settings.get("retention.ms"), self.spec.target.retention_ms
            if self.way != "none" and wanted and "delete" in policy and 0 <= int(retention or wanted) < wanted:
                doubts.append(f"{name} has retention.ms = {retention}, less than [target] retention_ms = {wanted}")
        if doubts:
            return Doubt("; ".join(doubts), "change the setting, or know that a restore may lack records")
        limits = sorted({topic.max_message_bytes for topic in self.old_topics.values()})
        return f"compacted; records of up to {' or '.join(map(size, limits))}"

    def target(self) -> str:
        """That the new topics are not there yet, or ours."""
        if self.way != "new-topic":
            return "no topic is made"
        owner = next((each.owner for each in self.written.opened), "")
        wanted = Topics(way=self.way, application=application_of(self.spec), changelogs=self.changelogs, owner=owner)
        check_not_foreign(self.written, self.cluster, wanted, self.old_topics, self.spec.name)
        return ", ".join(dict.fromkeys(each.new_topic for each in self.changelogs))

    def repartition(self) -> str:
        """That no input waits in a topic which the new code would name by the new store."""
        return check_repartition(self.cluster, self.connection, self.spec, self.changelogs)

    def authorised(self) -> str | Doubt:
        """That this user may do with the topics what this way needs, as far as the broker says."""
        unknown = []
        for name, topic in self.old_topics.items():
            needed = {"READ", "DESCRIBE_CONFIGS", *(("WRITE",) if self.way == "append" else ())}
            unknown += self._missing(name, needed)
            for new in dict.fromkeys(each.new_topic for each in self.changelogs if each.topic == name):
                if new == name:
                    continue
                if self.cluster.topic(new) is None:
                    self.cluster.check_can_create(
                        new, partitions=topic.partitions, replication=topic.replication, settings=topic.settings
                    )
                else:
                    unknown += self._missing(new, {"READ", "WRITE"})
        if unknown:
            return Doubt(f"the broker does not say what this user may do with {', '.join(unknown)}", _RIGHTS)
        application = application_of(self.spec)
        is_known = self.way != "none" and self.cluster.group(application).state not in ("DEAD", "UNKNOWN")
        if is_known and not self.cluster.committed(application, stable=False):
            return hidden_offsets(application)
        return (
            "to read"
            + {"none": "", "append": " and write", "new-topic": " the old topics, and make the new ones"}[self.way]
        )

    def _missing(self, topic: str, needed: Iterable[str]) -> list[str]:
        """The topic, if the broker does not say. Raises RefusedError for what is missing."""
        may = self.cluster.authorised(topic)
        if may is None:
            return [topic]
        if missing := sorted(set(needed) - may):
            raise RefusedError(f"this user may not {', '.join(missing)} the topic {topic}", hint=_RIGHTS)
        return []

    def writer(self) -> str:
        """That this user may write in transactions of ours: only a try shows it."""
        if self.way == "none":
            return "nothing is written"
        self.cluster.abort_transactions(f"stateferry-{self.spec.name}-check")
        return "transactional ids stateferry-..."


def _positions_in_words(ahead: list[str], gone: list[str], behind: list[str]) -> Doubt | None:
    """What is to be said of positions that are past the ends, and of beginnings that are lost."""
    if ahead:
        return Doubt("; ".join(ahead + gone + behind), "make sure that these topics were not made again")
    if gone:
        return Doubt("; ".join(gone + behind), f"{_CATCH_UP}; keys that were deleted since may come back")
    return None


def total_of(tails: Iterable[Behind]) -> Behind:
    """The tails of several changelogs together."""
    every = list(tails)
    return Behind(records=sum(each.records for each in every), is_most=any(each.is_most for each in every))


def tail_after(connection: Connection, each: Changelog, position: int, ends: Ends) -> Behind:
    """What a consumer reads after a position: counted where that takes no second, else at most."""
    start = max(position, ends.start)
    offsets = ends.stable - start
    if offsets <= 0:
        return Behind()
    if offsets > MOST_COUNTED:
        return Behind(records=offsets, is_most=True)
    return Behind(records=sum(map(len, read(connection, each.topic, each.number, start, ends.stable))))


def _ahead(each: Changelog, position: int, ends: Ends, *, may_be: bool) -> str:
    text = f"{each.store_partition} is at {position} of {each.topic}, partition {each.number}, which ends at {ends.end}"
    if not may_be:
        raise RefusedError(
            f"{text}: the topic was made again, or is another one",
            hint="check [changelog] bootstrap; where the topic was made again: start the old application, let it "
            "restore, and stop it cleanly",
        )
    return f"{text}; it is taken for the end, as the owner counts its stops"
