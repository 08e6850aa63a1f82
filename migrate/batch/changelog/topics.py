"""The topics that a migration writes to: made, or found again, and recorded before the first record is written.

The intent is committed before a topic is made, and its id after: so a topic of that name that neither names is foreign,
unless another host of the migration, which migrates a part of the application, has claimed a partition of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from migrate.batch.changelog.broker_access import has_records
from migrate.batch.changelog.host_claims import HostClaims, fleet_of, place_of
from migrate.batch.changelog.store_changelogs import new_changelogs, reached
from migrate.batch.context import Context
from migrate.batch.identity import common_identity
from migrate.batch.ledger.changelog_standing import ChangelogStanding, contents_of
from migrate.batch.plan.new_stores import parts_of
from migrate.batch.source.source import application_of, source_system
from migrate.errors import BrokerError, RefusedError
from migrate.kafka.claims import Claims
from migrate.kafka.cluster import BROKERS_DEFAULT, Cluster, Topic
from migrate.model.changelogs import Changelog, Topics
from migrate.model.ledger_row import Step
from migrate.spec.changelog_way import way_of
from migrate.spec.spec import Spec
from migrate.systems.base import ChangelogNames


def open_topics(context: Context, cluster: Cluster) -> Topics:
    """The topics to write to, with what this host has claimed of them. Those of an earlier run serve if all that it
    wrote is there and still to be written.

    Raises RefusedError for a topic that is not ours.
    """
    standing = context.standing.changelogs
    known = standing.topics
    if known is not None and _still_serves(context, cluster, known):
        return _with_claims(context, cluster, known)
    wanted = Topics(
        way=way_of(context.spec, context.conversion),
        application=application_of(context.spec),
        changelogs=new_changelogs(context.spec),
        owner=next((each.owner for each in standing.opened), "") or uuid.uuid4().hex[:12],
        digest=common_identity(context.spec, context.ref),
    )
    fleet = fleet_of(context.spec, wanted)
    claims = fleet.read_checked()
    names = source_system(context.spec).changelog
    old = {name: pattern(context.spec, cluster, name, names) for name in dict.fromkeys(wanted.names.values())}
    shared = fleet.shared(claims)
    former = list(former_topics(cluster, standing, wanted, old, shared))
    _check_not_shared(former, shared)
    if wanted.way == "new-topic" or known is None:  # what was appended before stays known
        context.record(Step.CHANGELOG, detail=wanted)
    context.notify("changelog.intended", topics=wanted)
    for topic in former:
        cluster.delete_topic(topic)
    wanted = wanted.model_copy(update={"starts": _starts(cluster, wanted, known, fleet, claims)})
    if wanted.is_first:  # only a topic that is there can be claimed
        _make(cluster, old, wanted)
        claims = fleet.read_checked()
    wanted = _claimed(context, cluster, replace(fleet, topics=wanted), claims, again=True)
    context.notify("changelog.claimed", topics=wanted)
    new = _make(cluster, old, wanted)
    context.notify("changelog.created", topics=wanted)
    opened = wanted.model_copy(
        update={
            "ids": {topic.name: topic.id for topic in (*old.values(), *new.values())},
            "parts": tuple(parts_of(context, wanted)),
        }
    )
    context.record(Step.CHANGELOG, detail=opened)
    context.notify("changelog.opened", topics=opened)
    return opened


def _with_claims(context: Context, cluster: Cluster, known: Topics) -> Topics:
    """The topics of an earlier run, with what nobody had claimed then, and this host can write by now."""
    fleet = fleet_of(context.spec, known)
    claims = fleet.read_checked()
    claimed = _claimed(context, cluster, fleet, claims, again=False)
    if claimed != known:
        context.record(Step.CHANGELOG, detail=claimed)
    return claimed


def _claimed(context: Context, cluster: Cluster, fleet: HostClaims, claims: Claims, *, again: bool) -> Topics:
    """The topics with the store partitions that this host writes: whose changelog nobody else has claimed.

    Where other hosts are at work, one of them may have a store that is not behind: that one is to write.
    """
    topics, at = fleet.topics, reached(context.spec, context.standing)
    is_alone = not fleet.others(claims)
    free = []
    for each in topics.changelogs:
        claim = claims.get(place_of(each))
        is_mine = each.store_partition in topics.claimed
        if is_mine or (claim is not None and claim.holds) or (topics.way == "new-topic" and _has_any(cluster, each)):
            continue
        if is_alone or context.spec.run.source == "snapshot" or _is_whole(cluster, topics, each, at):
            free.append(each.store_partition)
    return fleet.acquire(claims, free, at, again=again)


def _has_any(cluster: Cluster, changelog: Changelog) -> bool:
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


def _starts(
    cluster: Cluster, topics: Topics, known: Topics | None, fleet: HostClaims, claims: Claims
) -> dict[str, int]:
    """By store partition, the first offset of converted records."""
    if topics.way != "append":
        return {each.store_partition: 0 for each in topics.changelogs}
    found = {} if known is None else dict(known.starts)
    for each in topics.changelogs:
        claim = claims.get(place_of(each))
        if claim is not None and fleet.is_of_another(claim):
            found[each.store_partition] = claim.start
        elif known is None:
            found[each.store_partition] = cluster.ends_of(each.new_topic, each.number).end
    return found


def _still_serves(context: Context, cluster: Cluster, known: Topics) -> bool:
    """Whether the topics are those that were recorded, with every record in them, and the new stores are the same."""
    there = {name: cluster.topic(name) for name in known.names}
    if not all(topic is not None and known.is_same(name, topic.id) for name, topic in there.items()):
        return False
    contents, standing = contents_of(context.standing.receipts, known.parts), context.standing.changelogs
    written = (each for each in standing.produced if not each.tail)
    if any(contents.get(each.part) != each.content for each in written):
        return False
    kept = {(each.store_partition, each.database) for each in context.plan.databases if each.is_kept}
    if {(part.store_partition, part.database) for part in known.parts if part.database} - kept:
        return False
    return all(_holds(cluster, known, each, standing.last_offsets[each.store_partition]) for each in known.changelogs)


def _holds(cluster: Cluster, known: Topics, changelog: Changelog, last: int | None) -> bool:
    """Whether the partition still has our first and our last record, but for those that its retention removes."""
    topic = cluster.topic(changelog.new_topic)
    ends = cluster.ends_of(changelog.new_topic, changelog.number)
    expires = topic is not None and topic.removes_after_ms is not None
    is_whole = expires or ends.start <= known.starts[changelog.store_partition]
    return is_whole and (last is None or ends.end > last)


def _check_not_shared(former: Iterable[Topic], shared: Mapping[str, str]) -> None:
    for name in (each.name for each in former if each.name in shared):
        raise RefusedError(
            f"{name} has to be recreated, and the migration on {shared[name]} uses it too",
            hint="on every host: stateferry rollback SPEC if it is cut over, then stateferry abandon SPEC; the last "
            "one removes the topic; then stateferry run SPEC",
        )


def _make(cluster: Cluster, old: Mapping[str, Topic], topics: Topics) -> dict[str, Topic]:
    """The new topics by name, each like its old one."""
    return {name: _made(cluster, name, old[before], topics) for name, before in topics.names.items()}


def _made(cluster: Cluster, name: str, like: Topic, topics: Topics) -> Topic:
    """The topic of this name, as the old one but for its partitions; it may be there from a run that was killed."""
    if topics.way == "append":
        return like
    partitions = topics.partitions_of(name, like.partitions)
    try:
        return cluster.topic(name) or cluster.create_topic(
            name, partitions=partitions, replication=like.replication, settings=like.settings_of_copy
        )
    except BrokerError:
        if (made := cluster.topic(name)) is None:
            raise
        return made  # another host was faster


def pattern(spec: Spec, cluster: Cluster, name: str, names: ChangelogNames, instead: str = "") -> Topic:
    """The topic that the new one is made like: the old one; of a store that is made from rows, as its application would
    make it. Raises RefusedError as `existing`.
    """
    if not spec.source.rows:
        return existing(cluster, name, names, instead)
    assert spec.target.partitions is not None
    return Topic(
        name=name,
        id="",
        partitions=spec.target.partitions,
        replication=BROKERS_DEFAULT,
        settings=names.settings(spec.source.retention_ms),
        min_insync_replicas=1,
        max_message_bytes=0,
    )


def existing(cluster: Cluster, name: str, names: ChangelogNames, instead: str = "") -> Topic:
    """The old topic of this name. Raises RefusedError where there is none; `instead`: what the files name."""
    topic = cluster.topic(name)
    if topic is None:
        raise RefusedError(
            f"the changelog {name} does not exist{instead and f': {instead}'}",
            hint="check [changelog] application_id, and that `bootstrap` names the application's cluster; "
            f"{names.if_missing}",
        )
    return topic


def check_same(topics: Topics, topic: Topic, otherwise: str, hint: str) -> None:
    """Raises RefusedError, which begins with `otherwise`, where the topic is not the one that was recorded."""
    if not topics.is_same(topic.name, topic.id):
        raise RefusedError(f"{otherwise}: it was recreated since", hint=hint)


def check_still_ours(cluster: Cluster, topics: Topics, name: str) -> None:
    """Raises RefusedError where a topic that was written to is gone, or another one by now."""
    topic = cluster.topic(name)
    if topic is None or not topics.is_same(name, topic.id):
        raise RefusedError(
            f"the changelog {name} {'is gone' if topic is None else 'was recreated'} since this migration wrote to it",
            hint="check [changelog] bootstrap; if somebody deleted the topic, its content is in the stores alone",
        )


def old_topics(cluster: Cluster, topics: Topics) -> list[Topic]:
    """The old changelogs that are there. Raises RefusedError for one that was made again since it was recorded."""
    names = dict.fromkeys(old for new, old in topics.names.items() if new != old)
    there = [topic for name in names if (topic := cluster.topic(name)) is not None]
    for topic in there:
        hint = "who uses it? leave --delete-topic out, and remove the topic yourself if nobody does"
        check_same(topics, topic, f"{topic.name} is not the topic that was migrated", hint)
    return there


def former_topics(
    cluster: Cluster,
    standing: ChangelogStanding,
    wanted: Topics,
    old: Mapping[str, Topic],
    shared: Mapping[str, str],
) -> Iterator[Topic]:
    """The topics of the new names that are ours, and are to be made again. Raises RefusedError for a foreign one.

    `old`: the old topics by name. `shared`: the new ones that other hosts have claimed, too.
    """
    if wanted.way == "append":
        _check_appended(standing, old)
        return
    intended = {name for each in standing.opened for name in each.names}
    for name, before in wanted.names.items():
        if (there := cluster.topic(name)) is None:
            continue
        is_ours = there.id in standing.topic_ids
        if not is_ours and name in shared:
            continue
        if not is_ours and not (name in intended and is_empty(cluster, there)):
            raise RefusedError(
                f"the topic {name} exists already, and this migration did not make it",
                hint="if nobody needs it, delete it and run the command again; else give the new store another name "
                "in [target] store",
            )
        if is_ours or there.partitions != wanted.partitions_of(name, old[before].partitions):
            yield there


def _check_appended(standing: ChangelogStanding, old: Mapping[str, Topic]) -> None:
    for name, topic in old.items():
        otherwise = f"the changelog {name} is not the topic that records were appended to"
        hint = "what it held is in the old stores alone; to start over, remove the migration's folder"
        for opened in standing.opened:
            check_same(opened, topic, otherwise, hint)


def names_of_made(standing: ChangelogStanding) -> tuple[str, ...]:
    """The names of topics that the migration has made, or was about to."""
    return tuple(dict.fromkeys(name for each in standing.opened if each.way == "new-topic" for name in each.names))


def made_topics(cluster: Cluster, standing: ChangelogStanding) -> list[Topic]:
    """The topics that it made and that are there: one that is recorded by its id, or was made and not recorded yet.

    Such a one has no record: the first is written after its id is in the ledger.
    """
    there = [topic for name in names_of_made(standing) if (topic := cluster.topic(name)) is not None]
    return [topic for topic in there if topic.id in standing.topic_ids or is_empty(cluster, topic)]


def is_of_others(
    cluster: Cluster, fleet: HostClaims, standing: ChangelogStanding, claims: Claims, topic: Topic
) -> bool:
    """Whether another host uses the topic, or may: a partition has records, and nobody has said that they are void."""
    if topic.name in fleet.shared(claims):
        return True
    void = {number for (_, number), claim in claims.items() if not claim.holds}
    for opened in standing.opened:
        void |= {each.number for each in opened.changelogs if each.store_partition in opened.claimed}
    ends = cluster.ends(topic.name, set(range(topic.partitions)) - void)
    return any(each.start != each.end for each in ends.values())


def is_empty(cluster: Cluster, topic: Topic) -> bool:
    """Whether no partition has, or had, a record."""
    return all(ends.start == ends.end for ends in cluster.ends(topic.name, range(topic.partitions)).values())
