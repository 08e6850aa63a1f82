"""The hosts that migrate parts of one application under one name: which of them writes each changelog.

A host claims a changelog before it makes the topic or writes a record. Copies of a store on other hosts go on from
what it has written. Claims expire (offsets.retention.minutes): a partition with records is then nobody's to write.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from migrate.batch.changelog.broker_access import connection_of
from migrate.errors import RefusedError
from migrate.kafka.claims import Claim, Claims, ClaimState, Place, change_claims, read_claims
from migrate.kafka.connection import Connection
from migrate.model.changelogs import Changelog, Topics
from migrate.spec.spec import Spec


def place_of(changelog: Changelog) -> Place:
    """What is claimed: a changelog of the old store, which there is before the new one."""
    return changelog.topic, changelog.number if changelog.claimed_by is None else changelog.claimed_by


@dataclass(frozen=True, slots=True)
class HostClaims:
    """The hosts of a migration, as one of them sees them."""

    connection: Connection
    name: str
    """The migration's, the same on all hosts."""
    topics: Topics

    @property
    def group(self) -> str:
        """The group whose offsets are the claims."""
        return f"stateferry-{self.name}"

    def read(self) -> Claims:
        return read_claims(self.connection, self.group)

    def read_checked(self) -> Claims:
        """As `read`. Raises RefusedError where another host converts these stores otherwise, or splits them, too."""
        claims = self.read()
        for changelog in self.topics.changelogs:
            claim = claims.get(place_of(changelog))
            if claim is not None and self.is_of_another(claim) and claim.digest != self.topics.digest:
                raise RefusedError(
                    f"on {claim.host} a migration with the same name has claimed {changelog.topic}, partition "
                    f"{changelog.number}, and its spec or its function is another one",
                    hint="all hosts need the same spec and the same code; give up the wrong one there: stateferry "
                    f"abandon SPEC{self.lost(changelog)}",
                )

        if (others := self.others(claims)) and any(each.is_split for each in self.topics.changelogs):
            raise RefusedError(
                f"the migration on {others[0].host} has claimed the same changelogs: another number of partitions is "
                "made on one host, from all old tasks",
                hint="go on there, or give it up there: stateferry abandon SPEC",
            )
        return claims

    def is_of_another(self, claim: Claim) -> bool:
        """Whether it keeps this host from writing."""
        return claim.holds and claim.owner != self.topics.owner

    def others(self, claims: Claims) -> list[Claim]:
        old = {*self.topics.names.values()}
        return [each for (topic, _), each in claims.items() if topic in old and self.is_of_another(each)]

    def shared(self, claims: Claims) -> dict[str, str]:
        """The new topics that other hosts have claimed partitions of, or adopted, each with one of the hosts."""
        found = {}
        for new, old in self.topics.names.items():
            mine = [claim for (topic, _), claim in claims.items() if topic == old]
            hosts = [claim.host for claim in mine if self.is_of_another(claim)]
            hosts += [host for claim in mine for owner, host in claim.adopted.items() if owner != self.topics.owner]
            if hosts:
                found[new] = hosts[0]
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

        change_claims(self.connection, self.group, change)

    def release(self) -> Claims:
        """Say that this host uses nothing of what it has written, or adopted. Returns all claims."""

        def change(now: Claims) -> Claims:
            me = self.topics.owner
            return {
                place: replace(
                    claim,
                    state="given-up" if claim.owner == me else claim.state,
                    adopted={owner: host for owner, host in claim.adopted.items() if owner != me},
                )
                for place, claim in now.items()
                if claim.owner == me or me in claim.adopted
            }

        return change_claims(self.connection, self.group, change)

    def acquire(
        self, claims: Claims, free: Collection[str], reached: Mapping[str, int | None], *, again: bool
    ) -> Topics:
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
            claims = change_claims(self.connection, self.group, change)
        mine = (each.store_partition for each in self.topics.changelogs if self._is_mine(claims.get(place_of(each))))
        return self.topics.model_copy(update={"claimed": tuple(mine)})

    def _may_take(self, each: Changelog, free: Collection[str], claim: Claim | None, *, again: bool) -> bool:
        if claim is not None and claim.holds:
            return again and self._is_mine(claim)
        return each.store_partition in (*free, *self.topics.claimed)

    def _is_mine(self, claim: Claim | None) -> bool:
        return claim is not None and claim.holds and claim.owner == self.topics.owner

    def publish(
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

        change_claims(self.connection, self.group, change)

    def lost(self, changelog: Changelog) -> str:
        """How a claim is removed by hand."""
        return (
            f"; if that folder is lost, once nothing runs there: kafka-consumer-groups.sh --delete-offsets --execute "
            f"--group {self.group} --topic {changelog.topic}, and delete the topic that it was filling"
        )


def fleet_of(spec: Spec, topics: Topics) -> HostClaims:
    """The hosts that migrate by this spec. Raises SpecError."""
    return HostClaims(connection_of(spec), spec.name, topics)
