"""Store partitions that no host has: made from their changelogs alone, written to the new topic, and read back.

The store itself is left to the application, which restores it. Each step is recorded before the next one, and the
partition is claimed before the first: another host that has claimed it, or written it, keeps this one out; one that has
a copy and comes later goes on from these records, once it has found them equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from migrate.batch.changelog.application_group import check_group, open_transaction
from migrate.batch.changelog.broker_access import cluster_of, has_records
from migrate.batch.changelog.compare_topics import check_equal
from migrate.batch.changelog.held_topics import held_partitions
from migrate.batch.changelog.host_claims import HostClaims, fleet_of, place_of
from migrate.batch.changelog.tails import TailBatch, tail_task, write_batches
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.context import Context
from migrate.batch.source.source import source_system
from migrate.errors import RefusedError
from migrate.kafka.claims import Claims
from migrate.kafka.cluster import Cluster, Ends
from migrate.model.changelogs import Changelog, Rebuilt, Tail, Topics, with_rebuilt
from migrate.model.comparison import Reread, Totals
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import FamilyMapping, Plan
from migrate.model.reports import Held

_START_OVER = "stateferry abandon SPEC, then stateferry run SPEC"


def rebuild_missing(context: Context, executor: Executor, *, check: Callable[[Totals], None]) -> None:
    """Make what no host has written, where the spec asks for it; a rerun does what is left.

    `check`: raises where more records were left out than the spec allows. Nothing is made before the application has
    stopped. Raises RefusedError where a changelog has changed since it was read; what a catch-up raises;
    VerificationError where the broker does not have what was written.
    """
    assert context.spec.changelog is not None
    if context.spec.changelog.missing != "rebuild":
        return
    with cluster_of(context.spec) as cluster:
        if context.spec.run.source == "snapshot" and _is_at_work(context, cluster):
            return
        rebuilding = _Rebuilding.begun(context, executor, cluster)
        if rebuilding is not None:
            rebuilding.make(check)
            rebuilding.write()
            rebuilding.read_back()


@dataclass(frozen=True, slots=True)
class _Rebuilding:
    """The changelogs that this host has claimed, of store partitions that no host has."""

    context: Context
    executor: Executor
    cluster: Cluster
    fleet: HostClaims
    ends: Mapping[str, Ends]
    """Of the old changelogs, by store partition."""

    @classmethod
    def begun(cls, context: Context, executor: Executor, cluster: Cluster) -> _Rebuilding | None:
        """None: there is nothing to make. Raises RefusedError while a transaction of the application is open."""
        topics = context.topics
        fleet = fleet_of(context.spec, topics)
        claims = fleet.read()
        missing = held_partitions(cluster, topics, claims, missing_only=True)
        free = [each for each in _changelogs(context, missing) if _is_free(cluster, fleet, claims, each)]
        ends = {each.store_partition: cluster.ends_of(each.topic, each.number) for each in free}
        for each in free:
            if ends[each.store_partition].stable < ends[each.store_partition].end:
                raise open_transaction((each, ends[each.store_partition]), "wait until it ends")
        fleet = fleet_of(context.spec, with_rebuilt(topics, tuple(free)))
        reached = {partition: found.stable for partition, found in ends.items()}
        claimed = fleet.acquire(claims, [*ends], reached, again=True).claimed if free else ()
        if not claimed:
            return None
        mine = with_rebuilt(topics, tuple(each for each in free if each.store_partition in claimed))
        context.notify("rebuild.claimed", topics=mine)
        return cls(context, executor, cluster, fleet_of(context.spec, mine), ends)

    @property
    def _topics(self) -> Topics:
        return self.fleet.topics

    @property
    def _known(self) -> dict[str, Rebuilt]:
        known, mine = self.context.standing.changelogs.rebuilt, self._topics.changelogs
        return {each.store_partition: known[each.store_partition] for each in mine if each.store_partition in known}

    def make(self, check: Callable[[Totals], None]) -> None:
        """Read the old changelogs to their ends, and convert the last record of each key."""
        context, known = self.context, self._known
        for partition, each in known.items():
            self._check_unchanged(each.tail, self.ends[partition])
        mappings = _mappings(context.plan)
        tasks = [
            tail_task(context, self.cluster, each, mappings, start=ends.start, end=ends.stable)
            for each, ends in ((each, self.ends[each.store_partition]) for each in self._topics.changelogs)
            if each.store_partition not in known
        ]
        found = collected(self.executor, tasks, Tail, name=context.spec.name, stop=context.stop)
        context.notify("rebuild.made", tails=found)
        made = [Rebuilt(changelog=self._topics.of(tail.store_partition), tail=tail) for tail in found]
        check(context.standing.extended(map(self._row, made)).totals)
        self._commit(made)
        context.notify("rebuild.committed", tails=found)

    def write(self) -> None:
        context, left = self.context, [self._batch(each) for each in self._known.values() if each.produced is None]
        if not left:
            return
        found = write_batches(context, self.executor, self.cluster, left)
        context.notify("rebuild.written", produced=found)
        known = self._known
        self._commit(known[each.store_partition].model_copy(update={"produced": each}) for each in found)
        context.notify("rebuild.confirmed", produced=found)

    def read_back(self) -> None:
        """Compare what a restore would give, and say that it is written."""
        context, known = self.context, self._known
        tasks = [self._batch(each).reread_task(self.cluster) for each in known.values() if not each.is_done]
        found = collected(self.executor, tasks, Reread, name=context.spec.name, stop=context.stop)
        self._commit(known[each.store_partition].model_copy(update={"reread": each}) for each in found)
        check_equal(found, self._topics)
        context.notify("rebuild.verified", found=found)
        last = {name: each.produced.last_offset for name, each in known.items() if each.produced is not None}
        self.fleet.publish("written", last, {name: each.tail.end for name, each in known.items()})

    def _commit(self, found: Iterable[Rebuilt]) -> None:
        if rows := [self._row(each) for each in found]:
            self.context.commit(*rows)

    def _row(self, each: Rebuilt) -> Row:
        return self.context.ledger.row(Step.REBUILT, store_partition=each.tail.store_partition, detail=each)

    def _check_unchanged(self, tail: Tail, ends: Ends) -> None:
        changelog = self._topics.of(tail.store_partition)
        if has_records(self.cluster.connection, changelog.topic, changelog.number, tail.end, ends.stable):
            raise RefusedError(
                f"{changelog.topic}, partition {changelog.number}, has records from offset {tail.end} on, and was "
                "converted up to there: the application went on",
                hint=_START_OVER,
            )

    def _batch(self, each: Rebuilt) -> TailBatch:
        return TailBatch(self.context, each.changelog, (each.tail,))


def _is_at_work(context: Context, cluster: Cluster) -> bool:
    try:
        check_group(cluster, context.topics.application, context.spec)
    except RefusedError:
        return True
    return False


def _changelogs(context: Context, missing: Sequence[Held]) -> list[Changelog]:
    """The changelogs of these partitions, by the names that their store partitions would have."""
    system, found = source_system(context.spec), []
    for held in missing:
        like = next(each for each in context.topics.changelogs if each.topic == held.topic)
        known = context.plan.partition(like.store_partition)
        for number in held.missing:
            name = f"{system.layout.sibling(known, number)}/{known.store}"
            found.append(like.model_copy(update={"store_partition": name, "number": number}))
    return found


def _is_free(cluster: Cluster, fleet: HostClaims, claims: Claims, changelog: Changelog) -> bool:
    """Whether this host may write it: nobody else has claimed it, and there are no records of nobody."""
    claim = claims.get(place_of(changelog))
    if claim is not None and claim.holds:
        return not fleet.is_of_another(claim)
    ends = cluster.ends_of(changelog.new_topic, changelog.number)
    return ends.start == ends.end


def _mappings(plan: Plan) -> tuple[FamilyMapping, ...]:
    """The column families of any store partition: those of all are alike."""
    mappings = next((each.mappings for each in plan.databases if each.is_kept), None)
    if mappings is None:
        raise RefusedError(
            "every store partition here is empty, and does not tell the new store's column families",
            hint="start the old application once so that it restores what is missing, stop it, and start over: "
            f"{_START_OVER}",
        )
    return mappings
