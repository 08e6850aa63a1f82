"""The topics that a migration writes to: made, or found again, and recorded before the first record is written.

The intent is committed before a topic is made, and its id after: so a topic of that name that neither names is foreign,
unless another host of the migration has claimed a partition of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formats import Format
from migrate.batch.changelog.broker.claims import Fleet, is_empty, marker_group, place_of
from migrate.batch.changelog.broker.group import has_records
from migrate.batch.changelog.overlay import kept_databases
from migrate.batch.changelog.standing import ChangelogStanding, content_of
from migrate.batch.changelog.ways import application_of, changelogs, reached, way_of
from migrate.batch.context import Context
from migrate.batch.identity import common_identity
from migrate.batch.ledger.table import Ledger
from migrate.batch.plan.cut import cut
from migrate.errors import BrokerError, RefusedError
from migrate.kafka.claims import Claims, seen_claims
from migrate.kafka.cluster import Cluster, Topic
from migrate.model.changelog.written import Changelog, Part, Topics
from migrate.model.ledger_row import Step
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.receipt import Receipt
from migrate.stores.rocksdb.layout import database_files

_PART_BYTES = 64 << 20
"""What a kill loses of each slot's work. It does not depend on the slots: parts stay the same from run to run."""
_MOST_PARTS = 4096
"""In larger stores the parts grow instead: each has a transactional id, which the broker remembers for a week."""


@dataclass(frozen=True, slots=True)
class AssembledStores:
    """New stores, and the receipts of the chunks that they were made of."""

    plan: Plan
    folders: Mapping[str, Path]
    """By store partition."""
    receipts: Sequence[Receipt]
    overlays: Mapping[str, Path] = field(default_factory=dict)
    """What tails have changed, by store partition that has any."""

    def databases(self, store_partition: str) -> list[DatabasePlan]:
        """The RocksDB directories of a new store partition."""
        return kept_databases(self.plan, self.plan.partition(store_partition))

    def contents(self, parts: Sequence[Part]) -> dict[Part, str]:
        """A digest of what each part is made of."""
        return {part: content_of(self.receipts, part) for part in parts}


def open_topics(context: Context, ledger: Ledger, cluster: Cluster, stores: AssembledStores) -> Topics:
    """The topics to write to, with what this host has claimed of them. Those of an earlier run serve if all that it
    wrote is there and still to be written.

    Raises RefusedError for a topic that is not ours.
    """
    standing = ChangelogStanding(ledger.rows)
    known = standing.topics
    if known is not None and _still_serves(known, standing, cluster, stores):
        return _with_claims(context, ledger, cluster, known)
    wanted = Topics(
        way=way_of(context.spec, context.conversion),
        application=application_of(context.spec),
        changelogs=changelogs(context.spec),
        owner=next((each.owner for each in standing.opened), "") or uuid.uuid4().hex[:12],
        digest=common_identity(context.spec, context.ref),
    )
    fleet = Fleet(cluster.connection, context.spec.name, wanted)
    claims = fleet.read()
    fleet.check_same(claims)
    old = {name: existing(cluster, name) for name in {each.topic: None for each in wanted.changelogs}}
    shared = fleet.shared(claims)
    former = list(_ours(standing, cluster, wanted, old, shared))
    for topic in former:
        if topic.name in shared:
            raise _in_use(topic.name, shared[topic.name])
    if wanted.way == "new-topic" or known is None:  # what was appended before stays known
        ledger.commit(ledger.row(Step.CHANGELOG, detail=wanted))
    context.notify("changelog.intended", topics=wanted)
    for topic in former:
        cluster.delete_topic(topic)
    wanted = wanted.model_copy(update={"starts": _starts(cluster, wanted, known, fleet, claims)})
    wanted = _claimed(context, ledger, cluster, wanted, claims, again=True)
    context.notify("changelog.claimed", topics=wanted)
    new = {name: _made(cluster, name, old[before]) for name, before in _names(wanted).items()}
    context.notify("changelog.created", topics=wanted)
    opened = wanted.model_copy(
        update={
            "ids": {topic.name: topic.id for topic in (*old.values(), *new.values())},
            "parts": tuple(_parts(wanted, stores, context.conversion.target)),
        }
    )
    ledger.commit(ledger.row(Step.CHANGELOG, detail=opened))
    context.notify("changelog.opened", topics=opened)
    return opened


def _with_claims(context: Context, ledger: Ledger, cluster: Cluster, known: Topics) -> Topics:
    """The topics of an earlier run, with what nobody had claimed then, and this host can write by now."""
    fleet = Fleet(cluster.connection, context.spec.name, known)
    claims = fleet.read()
    fleet.check_same(claims)
    claimed = _claimed(context, ledger, cluster, known, claims, again=False)
    if claimed != known:
        ledger.commit(ledger.row(Step.CHANGELOG, detail=claimed))
    return claimed


def _claimed(
    context: Context, ledger: Ledger, cluster: Cluster, topics: Topics, claims: Claims, *, again: bool
) -> Topics:
    """The topics with the store partitions that this host writes: whose changelog nobody else has claimed.

    Where other hosts are at work, one of them may have a store that is not behind: that one is to write.
    """
    fleet, at = Fleet(cluster.connection, context.spec.name, topics), reached(context.spec, ledger.rows)
    is_alone = not fleet.others(claims)
    free = []
    for each in topics.changelogs:
        claim = claims.get(place_of(each))
        is_mine = each.store_partition in topics.claimed
        if is_mine or (claim is not None and claim.holds) or (topics.way == "new-topic" and _has_any(cluster, each)):
            continue
        if is_alone or context.spec.run.source == "snapshot" or _is_whole(cluster, topics, each, at):
            free.append(each.store_partition)
    return fleet.take(claims, free, at, again=again)


def _has_any(cluster: Cluster, changelog: Changelog) -> bool:
    """Whether somebody has written to the new changelog."""
    if cluster.topic(changelog.new_topic) is None:
        return False
    ends = cluster.ends_of(changelog.new_topic, changelog.number)
    return ends.start != ends.end


def _is_whole(cluster: Cluster, topics: Topics, changelog: Changelog, at: Mapping[str, int | None]) -> bool:
    """Whether the store has all that its old changelog has."""
    ends = cluster.ends_of(changelog.topic, changelog.number)
    end = topics.starts[changelog.store_partition] if topics.way == "append" else ends.stable
    start = max(at[changelog.store_partition] or 0, ends.start)
    return not has_records(cluster.connection, changelog.topic, changelog.number, start, end)


def _starts(cluster: Cluster, topics: Topics, known: Topics | None, fleet: Fleet, claims: Claims) -> dict[str, int]:
    """By store partition, the first offset of converted records."""
    if topics.way != "append":
        return {each.store_partition: 0 for each in topics.changelogs}
    found = _ends(cluster, topics) if known is None else dict(known.starts)
    for each in topics.changelogs:
        claim = claims.get(place_of(each))
        if claim is not None and fleet.is_of_another(claim):
            found[each.store_partition] = claim.start
    return found


def _still_serves(known: Topics, standing: ChangelogStanding, cluster: Cluster, stores: AssembledStores) -> bool:
    """Whether the topics are those that were recorded, with every record in them, and the new stores are the same."""
    for name in _names(known):
        topic = cluster.topic(name)
        if topic is None or topic.id != known.ids[name]:
            return False
    contents = stores.contents(known.parts)
    written = (each for each in standing.produced if not each.tail)
    if any(contents.get(each.part) != each.content for each in written):
        return False
    if {(part.store_partition, part.database) for part in known.parts if part.database} - _places(stores):
        return False
    return all(_holds(cluster, known, each, standing.last_offsets[each.store_partition]) for each in known.changelogs)


def _holds(cluster: Cluster, known: Topics, changelog: Changelog, last: int | None) -> bool:
    """Whether the partition still has our first and our last record, but for those that its retention removes."""
    topic = cluster.topic(changelog.new_topic)
    ends = cluster.ends_of(changelog.new_topic, changelog.number)
    expires = topic is not None and "delete" in topic.settings.get("cleanup.policy", "")
    is_whole = expires or ends.start <= known.starts[changelog.store_partition]
    return is_whole and (last is None or ends.end > last)


def _places(stores: AssembledStores) -> set[tuple[str, str]]:
    return {(each.store_partition, each.database) for each in stores.plan.databases if each.is_kept}


def _names(topics: Topics) -> dict[str, str]:
    """The old topic of each new one."""
    return {each.new_topic: each.topic for each in topics.changelogs}


def _ours(
    standing: ChangelogStanding,
    cluster: Cluster,
    wanted: Topics,
    old: Mapping[str, Topic],
    shared: Mapping[str, str],
) -> Iterator[Topic]:
    """The topics of the new names that are ours, and are to be made again. Raises RefusedError for a foreign one.

    `shared`: those that other hosts have claimed, too.
    """
    if wanted.way == "append":
        for name, there in old.items():
            if any(each.ids.get(name, there.id) != there.id for each in standing.opened):
                raise RefusedError(
                    f"the changelog {name} is not the topic that records were appended to: it was made again since",
                    hint="what it held is in the old stores alone; to start over, remove the migration's folder",
                )
        return
    made = {topic_id for each in standing.opened for topic_id in each.ids.values()}
    intended = {name for each in standing.opened for name in _names(each)}
    named = ((cluster.topic(name), before) for name, before in _names(wanted).items())
    for topic, before in ((topic, before) for topic, before in named if topic is not None):
        is_ours, name = topic.id in made, topic.name
        if not is_ours and name in shared:
            continue
        if not is_ours and not (name in intended and is_empty(cluster, topic)):
            raise RefusedError(
                f"the topic {name} exists already, and this migration did not make it",
                hint="if nobody needs it, delete it and run the command again; else give the new store another name "
                "in [target] store",
            )
        if is_ours or topic.partitions != old[before].partitions:
            yield topic


def check_not_foreign(
    standing: ChangelogStanding, cluster: Cluster, wanted: Topics, old: Mapping[str, Topic], name: str
) -> None:
    """Raises RefusedError where a topic of a new name is there, and neither this migration nor one on another host has
    made it. `name`: the migration's."""
    fleet = Fleet(cluster.connection, name, wanted)
    for _ in _ours(standing, cluster, wanted, old, fleet.shared(seen_claims(cluster, marker_group(name)))):
        pass


def _in_use(name: str, host: str) -> RefusedError:
    return RefusedError(
        f"{name} has to be made again, and the migration on {host} uses it too",
        hint="on every host: stateferry rollback SPEC if it is cut over, then stateferry abandon SPEC; the last one "
        "removes the topic; then stateferry run SPEC",
    )


def existing(cluster: Cluster, name: str) -> Topic:
    """The old topic of this name. Raises RefusedError where there is none."""
    topic = cluster.topic(name)
    if topic is None:
        raise RefusedError(
            f"the changelog {name} does not exist",
            hint="check [changelog] application_id, and that `bootstrap` names the application's cluster; a table "
            "whose changelog is its input topic (topology.optimization) cannot be migrated with it",
        )
    return topic


def _made(cluster: Cluster, name: str, like: Topic) -> Topic:
    """The topic of this name, as the old one is; it exists where a run was killed before it recorded the id."""
    if name == like.name:
        return like
    try:
        return cluster.topic(name) or cluster.create_topic(
            name, partitions=like.partitions, replication=like.replication, settings=like.settings
        )
    except BrokerError:
        if (made := cluster.topic(name)) is None:
            raise
        return made  # another host was faster


def _ends(cluster: Cluster, topics: Topics) -> dict[str, int]:
    """Where each changelog ends now, by store partition."""
    return {each.store_partition: cluster.ends_of(each.new_topic, each.number).end for each in topics.changelogs}


def _parts(topics: Topics, stores: AssembledStores, target: Format) -> Iterator[Part]:
    """What is to be written, in tasks: by ranges of keys, but a history as a whole, in the order of time."""
    size = max(_PART_BYTES, sum(each.data_bytes for each in stores.plan.databases) // _MOST_PARTS)
    for partition in (each.store_partition for each in topics.changelogs):
        databases = stores.databases(partition)
        is_one = target.changelog_form.is_in_order_of_time or sum(each.data_bytes for each in databases) <= size
        if is_one or topics.way == "append":
            yield Part(store_partition=partition, database="")
        for database in () if is_one else databases:
            files = database_files(stores.folders[partition] / database.database).immutable
            for keys in cut([(file, b"") for file in files if file.suffix == ".sst"], size).ranges:
                yield Part(store_partition=partition, database=database.database, keys=keys)
