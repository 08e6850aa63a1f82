"""The hosts that migrate parts of one application under one name: which of them writes each changelog, and which topics
may be removed.

A host claims a changelog before it makes the topic or writes a record. Copies of a store on other hosts go on from
what it has written. Claims expire (offsets.retention.minutes): a partition with records is then nobody's to write.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from migrate.batch.changelog.standing import ChangelogStanding
from migrate.errors import RefusedError
from migrate.kafka.claims import Claim, Claims, ClaimState, Place, change_claims, read_claims
from migrate.kafka.cluster import Cluster, Topic
from migrate.kafka.connection import Connection
from migrate.model.changelog.written import Changelog, Topics


def marker_group(name: str) -> str:
    """The group whose offsets are the claims for a migration of that name."""
    return f"stateferry-{name}"


def place_of(changelog: Changelog) -> Place:
    """What is claimed: a changelog of the old store, which there is before the new one."""
    return changelog.topic, changelog.number


@dataclass(frozen=True, slots=True)
class Fleet:
    """The hosts of a migration, as one of them sees them."""

    connection: Connection
    name: str
    """The migration's, the same on all hosts."""
    topics: Topics

    def read(self) -> Claims:
        """All claims there are."""
        return read_claims(self.connection, marker_group(self.name))

    def check_same(self, claims: Claims) -> None:
        """Raises RefusedError where another host converts these stores in another way."""
        for changelog in self.topics.changelogs:
            claim = claims.get(place_of(changelog))
            if claim is not None and self.is_of_another(claim) and claim.digest != self.topics.digest:
                raise RefusedError(
                    f"on {claim.host} a migration with the same name has claimed {changelog.topic}, partition "
                    f"{changelog.number}, and its spec or its function is another one",
                    hint="all hosts need the same spec and the same code; give up the wrong one there: stateferry "
                    f"abandon SPEC{lost(marker_group(self.name), changelog)}",
                )

    def is_of_another(self, claim: Claim) -> bool:
        """Whether it keeps this host from writing."""
        return claim.holds and claim.owner != self.topics.owner

    def others(self, claims: Claims, new_topic: str | None = None) -> list[Claim]:
        """The other hosts' claims for partitions of the new topic, or of any."""
        old = {each.topic for each in self.topics.changelogs if new_topic in (None, each.new_topic)}
        return [each for (topic, _), each in claims.items() if topic in old and self.is_of_another(each)]

    def shared(self, claims: Claims) -> dict[str, str]:
        """The new topics that other hosts have claimed partitions of, or adopted, each with one of the hosts."""
        found = {}
        for each in self.topics.changelogs:
            hosts = [other.host for other in self.others(claims, each.new_topic)]
            mine = (claim for (topic, _), claim in claims.items() if topic == each.topic)
            hosts += [host for claim in mine for owner, host in claim.adopted.items() if owner != self.topics.owner]
            if hosts:
                found[each.new_topic] = hosts[0]
        return found

    def adopt(self, partitions: Collection[str]) -> None:
        """Say that copies on this host go on from what other hosts have written."""
        me = {self.topics.owner: socket.gethostname()}
        places = {place_of(each) for each in self.topics.changelogs if each.store_partition in partitions}

        def change(now: Claims) -> Claims:
            return {
                place: replace(claim, adopted={**claim.adopted, **me})
                for place, claim in now.items()
                if place in places
            }

        change_claims(self.connection, marker_group(self.name), change)

    def give_up(self) -> Claims:
        """Say that this host uses nothing of what it has written, or adopted. Returns all claims."""

        def change(now: Claims) -> Claims:
            me = self.topics.owner
            mine = {place: claim for place, claim in now.items() if claim.owner == me or me in claim.adopted}
            return {
                place: replace(
                    claim,
                    state="given-up" if claim.owner == me else claim.state,
                    adopted={owner: host for owner, host in claim.adopted.items() if owner != me},
                )
                for place, claim in mine.items()
            }

        return change_claims(self.connection, marker_group(self.name), change)

    def take(self, claims: Claims, free: Collection[str], reached: Mapping[str, int | None], *, again: bool) -> Topics:
        """The topics with what this host writes, of what is `free` or was claimed before; the claims are made.

        `again`: what this host has written before does not count.
        """

        def change(now: Claims) -> Claims:
            return {
                place_of(each): Claim(
                    digest=self.topics.digest,
                    owner=self.topics.owner,
                    host=socket.gethostname(),
                    state="writing",
                    reached=reached[each.store_partition] or 0,
                    start=self.topics.starts[each.store_partition],
                )
                for each in self.topics.changelogs
                if self._may_take(each, free, now.get(place_of(each)), again=again)
            }

        if change(claims):
            claims = change_claims(self.connection, marker_group(self.name), change)
        mine = (each.store_partition for each in self.topics.changelogs if self._is_mine(claims.get(place_of(each))))
        return self.topics.model_copy(update={"claimed": tuple(mine)})

    def _may_take(self, each: Changelog, free: Collection[str], claim: Claim | None, *, again: bool) -> bool:
        if claim is not None and claim.holds:
            return again and self._is_mine(claim)
        return each.store_partition in (*free, *self.topics.claimed)

    def _is_mine(self, claim: Claim | None) -> bool:
        return claim is not None and claim.holds and claim.owner == self.topics.owner

    def mark(
        self,
        state: ClaimState,
        last: Mapping[str, int | None] | None = None,
        reached: Mapping[str, int | None] | None = None,
    ) -> None:
        """Say this of all that this host has claimed; `last` and `reached`: by store partition, the new offsets."""

        def change(now: Claims) -> Claims:
            mine = {place: claim for place, claim in now.items() if self._is_mine(claim)}
            if last is None or reached is None:
                return {place: replace(claim, state=state) for place, claim in mine.items()}
            return {
                place: replace(mine[place], state=state, last=last[partition], reached=reached[partition] or 0)
                for place, partition in ((place_of(each), each.store_partition) for each in self.topics.changelogs)
                if place in mine
            }

        change_claims(self.connection, marker_group(self.name), change)


def lost(group: str, changelog: Changelog) -> str:
    """How a claim is removed by hand."""
    return (
        f"; if that folder is lost, once nothing runs there: kafka-consumer-groups.sh --delete-offsets --execute "
        f"--group {group} --topic {changelog.topic}, and delete the topic that it was filling"
    )


def names_of_made(standing: ChangelogStanding) -> tuple[str, ...]:
    """The names of topics that the migration has made, or was about to."""
    opened = [each for each in standing.opened if each.way == "new-topic"]
    return tuple(dict.fromkeys(changelog.new_topic for each in opened for changelog in each.changelogs))


def made_topics(cluster: Cluster, standing: ChangelogStanding) -> list[Topic]:
    """The topics that it made and that are there: one that is recorded by its id, or was made and not recorded yet.

    Such a one has no record: the first is written after its id is in the ledger.
    """
    ids = {topic_id for each in standing.opened for topic_id in each.ids.values()}
    there = [topic for name in names_of_made(standing) if (topic := cluster.topic(name)) is not None]
    return [topic for topic in there if topic.id in ids or is_empty(cluster, topic)]


def is_of_others(cluster: Cluster, fleet: Fleet, standing: ChangelogStanding, claims: Claims, topic: Topic) -> bool:
    """Whether another host uses the topic, or may: a partition has records, and nobody has said that they are void."""
    if topic.name in fleet.shared(claims):
        return True
    void = {number for (_, number), claim in claims.items() if not claim.holds}
    for opened in standing.opened:
        void |= {each.number for each in opened.changelogs if each.store_partition in opened.claimed}
    ends = cluster.ends(topic.name, set(range(topic.partitions)) - void)
    return any(each.start != each.end for each in ends.values())


def old_topics(cluster: Cluster, topics: Topics) -> list[Topic]:
    """The old changelogs that are there. Raises RefusedError for one that was made again since it was recorded."""
    names = dict.fromkeys(each.topic for each in topics.changelogs if each.new_topic != each.topic)
    there = [topic for name in names if (topic := cluster.topic(name)) is not None]
    for topic in there:
        if topic.id != topics.ids[topic.name]:
            raise RefusedError(
                f"{topic.name} is not the topic that was migrated: it was made again since",
                hint="who uses it? leave --delete-topic out, and remove the topic yourself if nobody does",
            )
    return there


def is_empty(cluster: Cluster, topic: Topic) -> bool:
    """Whether no partition has, or had, a record."""
    return all(ends.start == ends.end for ends in cluster.ends(topic.name, range(topic.partitions)).values())
