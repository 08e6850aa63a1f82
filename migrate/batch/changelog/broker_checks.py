"""What must hold at the broker before a migration's changelogs are written; `preflight/checklist.py` names each check.

That is also what the user of `[changelog] config` may do there, and whether stores are behind their changelogs or past
the end. What a client cannot ask is an `InconclusiveCheck`: said, and never passed as checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property

from formats import Conversion
from migrate.batch.changelog.application_group import (
    check_group,
    check_repartition,
    end_transactions,
    hidden_offsets,
    open_transaction,
    open_transactions,
)
from migrate.batch.changelog.broker_access import connection_of, tail_after
from migrate.batch.changelog.held_topics import check_other_topics, held_partitions, in_words, ways_out
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.store_changelogs import changelogs, positions, reached
from migrate.batch.changelog.take_key_times import checked_end, lost_beginning
from migrate.batch.changelog.topics import check_same, former_topics, pattern
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.changelog_ends import restored_from
from migrate.batch.source.source import Source, application_of, target_system
from migrate.errors import RefusedError
from migrate.kafka.claims import seen_claims
from migrate.kafka.cluster import Cluster, Ends, Topic
from migrate.kafka.connection import Connection
from migrate.model.changelogs import Changelog, Topics, Way
from migrate.model.display import plural, size
from migrate.model.reports import Behind, Held, InconclusiveCheck
from migrate.spec.allowed import LOST_TOMBSTONES, allowing
from migrate.spec.changelog_way import check_catch_up, is_undecided, way_of
from migrate.spec.spec import Spec

_FENCE = (
    "wait until it ends (transaction.timeout.ms: 10 s by default in Kafka Streams), then run the same command again; "
    "or end what dead instances of this host left open: --fence, with run or cutover"
)
_RIGHTS = "docs/changelogs.md lists the rights that each way needs"
_ALLOWED: dict[Way, str] = {
    "none": "to read",
    "append": "to read and write",
    "new-topic": "to read the old topics, and make the new ones",
}
_CATCH_UP = "after the run, and before the cut-over: stateferry catch-up SPEC brings these records"


@dataclass
class BrokerFacts:
    """The facts about a migration's changelogs, each asked for once; `close` ends the connection."""

    spec: Spec
    conversion: Conversion
    source: Source
    standing: Standing
    """What earlier runs did."""
    tails: dict[str, Behind] = field(default_factory=dict, init=False)
    """By store partition, what its changelog has more than the store; empty before `position` has asked."""
    _open: ExitStack = field(default_factory=ExitStack, init=False)

    @cached_property
    def cluster(self) -> Cluster:
        return self._open.enter_context(Cluster(self.connection))

    def close(self) -> None:
        """End the connection; another question makes a new one."""
        self._open.close()
        self.__dict__.pop("cluster", None)

    @cached_property
    def way(self) -> Way:
        return way_of(self.spec, self.conversion)

    @cached_property
    def connection(self) -> Connection:
        return connection_of(self.spec)

    @cached_property
    def changelogs(self) -> tuple[Changelog, ...]:
        return changelogs(self.spec, self.source)

    @cached_property
    def old_topics(self) -> dict[str, Topic]:
        """The old topics by name, or what the new ones are made like. Raises RefusedError where one does not exist."""
        partitions = {partition.id: partition for partition in self.source.partitions}
        named = {each.topic: restored_from(self.source, partitions[each.store_partition]) for each in self.changelogs}
        names = self.source.system.changelog
        return {name: pattern(self.spec, self.cluster, name, names, instead) for name, instead in named.items()}

    @property
    def partitions(self) -> dict[str, tuple[int, int]]:
        """Of each store partition, the number of its changelog partition, and how many there are."""
        return {each.store_partition: (each.number, self.old_topics[each.topic].partitions) for each in self.changelogs}

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
        topics = self.standing.changelogs.topics
        return {} if topics is None or topics.way != "append" else topics.starts

    @property
    def is_behind(self) -> bool:
        """Whether a catch-up has something to bring, once `position` has asked."""
        return self.way != "none" and any(each.records for each in self.tails.values())

    # The checks, in their order

    def reachable(self) -> str:
        self.cluster  # noqa: B018 - connects
        return self.connection.bootstrap

    def group(self, *, only_reads: bool) -> str | InconclusiveCheck:
        return check_group(self.cluster, application_of(self.spec), self.spec, only_reads=only_reads)

    def transactions(self, *, fence: bool) -> str:
        """That no transaction is open in the old changelogs; `fence`: dead instances' of this host are ended."""
        if fence:
            return end_transactions(self.cluster, self.spec, self.source, self.changelogs, self._ours)
        if open_now := open_transactions(self.cluster, self.changelogs, self._ours):
            raise open_transaction(open_now[0], _FENCE)
        return "the last stable offset of every changelog is its end"

    def topics(self) -> str:
        if self.spec.source.rows:
            return self.target()
        for each in self.changelogs:
            topic = self.old_topics[each.topic]
            if each.number >= topic.partitions:
                raise RefusedError(
                    f"{each.store_partition} has partition {each.number} of {each.topic}, which has only "
                    f"{plural(topic.partitions, 'partition')}",
                    hint="the topic is not this application's, or was recreated: check [changelog] application_id and "
                    "`bootstrap`",
                )
            if self.standing.changelogs.topics is not None:
                otherwise = f"{topic.name} is not the topic that it was when this migration began"
                hint = "stateferry abandon SPEC, then stateferry run SPEC starts over with the store as it is now"
                check_same(self.standing.changelogs.topics, topic, otherwise, hint)
        ours = Counter(each.topic for each in self.changelogs)
        return ", ".join(
            f"{name} ({plural(topic.partitions, 'partition')}, {ours[name]} of this host)"
            for name, topic in self.old_topics.items()
        )

    def position(self) -> str | InconclusiveCheck:
        stated = reached(self.spec, self.standing, self.source)
        found = Positions()
        for each in self.changelogs:
            ends, at = self.ends(each), stated[each.store_partition]
            if self.way != "none":
                found.check_beginning(self.spec, self.source, each, at, ends)
            found.check_end(each, at, ends, may_be_ahead=self.source.system.offsets.counts_stops)
            tail = self.tails[each.store_partition] = tail_after(self.connection, each, at, ends)
            if tail.records:
                found.behind.append(f"{each.store_partition} is {tail} behind {each.topic}")
        if self.is_behind:
            can_rename = target_system(self.spec).can_rename
            check_catch_up(self.spec, self.conversion, "; ".join(found.behind), can_rename=can_rename)
        return found.in_words(self.way, self.spec.run.source)

    def times(self) -> str | InconclusiveCheck:
        stated = positions(self.spec, self.source)
        lost = []
        for each in self.changelogs:
            ends = self.ends(each)
            checked_end(each, stated[each.store_partition], ends)
            lost += [lost_beginning(each, ends, self.spec, self.conversion)]
        if found := [sentence for sentence in lost if sentence is not None]:
            return InconclusiveCheck(
                "; ".join(found), "know that these keys get another time; nothing brings theirs back"
            )
        return "every changelog begins at its first record"

    def settings(self) -> str | InconclusiveCheck:
        """That what is written is kept, and can be written at all."""
        doubts = []
        for name, topic in self.old_topics.items():
            if self.way != "none" and topic.min_insync_replicas > topic.replication:
                raise RefusedError(
                    f"{name} has {plural(topic.replication, 'replica')} and min.insync.replicas = "
                    f"{topic.min_insync_replicas}: nothing can be written to it, nor to a topic like it",
                    hint="lower min.insync.replicas, or give the topic more replicas",
                )
            if self.way == "append" and topic.stamps_records:
                raise RefusedError(
                    f"{name} gives its own time to each record (message.timestamp.type = LogAppendTime): converted "
                    "records would lose theirs",
                    hint="kafka-configs.sh --alter: message.timestamp.type=CreateTime, as Kafka Streams makes its "
                    "topics; or name a new store in [target] store: its topic keeps the times",
                )
            policy = topic.settings.get("cleanup.policy", "")
            if "compact" not in policy:
                doubts.append(f"{name} is not compacted (cleanup.policy = {policy or 'the default of the broker'})")
            retention, wanted = topic.settings.get("retention.ms"), self.spec.target.retention_ms
            if self.way != "none" and wanted and "delete" in policy and 0 <= int(retention or wanted) < wanted:
                doubts.append(f"{name} has retention.ms = {retention}, less than [target] retention_ms = {wanted}")
            most = int(topic.settings.get("retention.bytes", -1))
            if self.way != "none" and "delete" in policy and most >= 0:
                doubts.append(f"{name} has retention.bytes = {most}: beyond that the broker removes records")
        if doubts:
            return InconclusiveCheck("; ".join(doubts), "change the setting, or know that a restore may lack records")
        limits = sorted({topic.max_message_bytes for topic in self.old_topics.values()})
        return f"compacted; records of up to {' or '.join(map(size, limits))}"

    @cached_property
    def _wanted(self) -> Topics:
        owner = next((each.owner for each in self.standing.changelogs.opened), "")
        return Topics(way=self.way, application=application_of(self.spec), changelogs=self.changelogs, owner=owner)

    def target(self) -> str:
        if self.way != "new-topic" or is_undecided(self.spec, self.conversion):
            return "no topic is made"  # the old topic itself is there, and not to be deleted
        fleet = fleet_of(self.spec, self._wanted)
        shared = fleet.shared(seen_claims(self.cluster, fleet.group))
        for _ in former_topics(self.cluster, self.standing.changelogs, self._wanted, self.old_topics, shared):
            pass  # a foreign one is refused
        return ", ".join(self._wanted.names)

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """Which partitions of the old changelogs hold keys; none where no changelog is written."""
        if self.way == "none":
            return ()
        claims = seen_claims(self.cluster, fleet_of(self.spec, self._wanted).group)
        return held_partitions(self.cluster, self._wanted, claims)

    def missing(self) -> str | InconclusiveCheck:
        missing, found = [each for each in self.held if each.missing], "; ".join(map(str, self.held))
        if not missing:
            return found or "nothing is written"
        word = None if self.spec.changelog is None else self.spec.changelog.missing
        if word is not None:
            return f'{found} ([changelog] missing = "{word}")'
        ways = ways_out(self.way, has_begun=bool(self.standing.changelogs.opened))
        return InconclusiveCheck(in_words(missing), f"before the cut-over: {ways}")

    def repartition(self) -> str:
        return check_repartition(self.cluster, self.spec, self.changelogs)

    def other_topics(self) -> str | InconclusiveCheck:
        return check_other_topics(self.cluster, self.spec, self.conversion)

    def authorised(self) -> str | InconclusiveCheck:
        unknown, cluster, is_first = [], self.cluster, self._wanted.is_first
        for name, topic in self.old_topics.items():
            if not is_first:
                needed = {"READ", "DESCRIBE_CONFIGS", *(("WRITE",) if self.way == "append" else ())}
                unknown += _missing(cluster, name, needed)
            for new in (new for new, old in self._wanted.names.items() if old == name and (is_first or new != old)):
                if cluster.topic(new) is None:
                    cluster.check_can_create(new, topic)
                else:
                    unknown += _missing(cluster, new, {"READ", "WRITE"})
        if unknown:
            what = f"the broker does not say what this user may do with {', '.join(unknown)}"
            return InconclusiveCheck(what, _RIGHTS)
        application = application_of(self.spec)
        is_known = self.way != "none" and cluster.group(application).state not in ("DEAD", "UNKNOWN")
        if is_known and not cluster.committed(application, stable=False):
            return hidden_offsets(application)
        return _ALLOWED[self.way]

    def writer(self) -> str:
        """That this user may write in transactions of ours: only a try shows it."""
        if self.way == "none":
            return "nothing is written"
        self.cluster.abort_transactions(f"stateferry-{self.spec.name}-check")
        return "transactional ids stateferry-..."


def _missing(cluster: Cluster, topic: str, needed: set[str]) -> list[str]:
    """The topic, if the broker does not say. Raises RefusedError for what is missing."""
    may = cluster.authorised(topic)
    if may is None:
        return [topic]
    if missing := sorted(needed - may):
        raise RefusedError(f"this user may not {', '.join(missing)} the topic {topic}", hint=_RIGHTS)
    return []


@dataclass(frozen=True, slots=True)
class Positions:
    """Sentences about the stores whose changelogs have not just what they have."""

    ahead: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)

    def check_end(self, each: Changelog, position: int | None, ends: Ends, *, may_be_ahead: bool) -> None:
        """Raises RefusedError where a store is past its changelog's end, unless its owner counts its stops."""
        if position is None or position <= ends.end:
            return
        text = f"{_place(each, position)}, which ends at {ends.end}"
        if not may_be_ahead:
            raise RefusedError(
                f"{text}: the topic was recreated, or is another one",
                hint="check [changelog] bootstrap; where the topic was recreated: start the old application, let it "
                "restore, and stop it cleanly",
            )
        self.ahead.append(f"{text}; it is taken for the end, as the owner counts its stops")

    def check_beginning(self, spec: Spec, source: Source, each: Changelog, position: int | None, ends: Ends) -> None:
        """Raises RefusedError where a store, and what follows its position, are not the whole state.

        What retention has removed of its changelog may be allowed.
        """
        partition = next(found for found in source.partitions if found.id == each.store_partition)
        problem = None
        if spec.run.source == "live" and not source.system.offsets.counts_stops:
            problem = source.position_problem(partition)
        if problem is None and position is None:
            problem = "nothing states its position in the changelog"
        if problem is not None and (position is not None or ends.end > ends.start):
            raise RefusedError(
                f"{each.store_partition}: {problem}, so its files alone are not the state",
                hint="start the old application, let it restore, and stop it cleanly; then run the same command again",
            )
        if (position or 0) >= ends.start:
            return
        gone = (
            f"{_place(each, position or 0)}, which begins at {ends.start} by now: its retention has removed records "
            "that the store lacks"
        )
        if LOST_TOMBSTONES not in spec.conversion.allow:
            raise RefusedError(
                gone,
                hint="start the old application, let it catch up, and stop it cleanly; then run the same command "
                f"again; or accept that keys which were deleted come back: {allowing(LOST_TOMBSTONES)}",
            )
        self.gone.append(f"{gone} (allowed by name)")

    def in_words(self, way: Way, source: str) -> str | InconclusiveCheck:
        """What is to be said of all of them. `source`: whether the stores are live, or of a snapshot."""
        behind = "; ".join(self.behind)
        if self.ahead:
            every = "; ".join([*self.ahead, *self.gone, *self.behind])
            return InconclusiveCheck(every, "make sure that these topics were not recreated")
        if self.gone:
            return InconclusiveCheck(
                "; ".join(self.gone + self.behind), f"{_CATCH_UP}; keys that were deleted since may come back"
            )
        if not behind:
            return "every store has all that its changelog has"
        if way == "none":
            return f"{behind}: the application replays these records"
        return f"{behind}; {_CATCH_UP}" if source == "snapshot" else InconclusiveCheck(behind, _CATCH_UP)


def _place(each: Changelog, position: int) -> str:
    return f"{each.store_partition} is at {position} of {each.topic}, partition {each.number}"
