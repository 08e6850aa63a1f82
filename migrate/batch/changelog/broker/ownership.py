"""Whose topics are: the migration's own, those of other hosts that migrate parts of the application, or foreign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrate.batch.changelog.broker.claims import Fleet
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.errors import RefusedError
from migrate.kafka.claims import Claims
from migrate.kafka.cluster import Cluster, Topic
from migrate.model.changelog.written import Topics


def existing(cluster: Cluster, name: str, instead: str = "") -> Topic:
    """The old topic of this name. Raises RefusedError where there is none; `instead`: what the files name."""
    topic = cluster.topic(name)
    if topic is None:
        raise RefusedError(
            f"the changelog {name} does not exist{instead and f': {instead}'}",
            hint="check [changelog] application_id, and that `bootstrap` names the application's cluster; is logging "
            "disabled for this store, so that it has no changelog? leave [changelog] out; a table whose changelog is "
            "its input topic cannot be migrated with it: let the old application keep it in a changelog of its own "
            "(topology.optimization = none), start and stop it once, and migrate that",
        )
    return topic


def check_same(topics: Topics, topic: Topic, otherwise: str, hint: str) -> None:
    """Raises RefusedError, which begins with `otherwise`, where the topic is not the one that was recorded."""
    if not topics.is_same(topic.name, topic.id):
        raise RefusedError(f"{otherwise}: it was made again since", hint=hint)


def check_still_ours(cluster: Cluster, topics: Topics, name: str) -> None:
    """Raises RefusedError where a topic that was written to is gone, or another one by now."""
    topic = cluster.topic(name)
    if topic is None or not topics.is_same(name, topic.id):
        raise RefusedError(
            f"the changelog {name} {'is gone' if topic is None else 'was made again'} since this migration wrote to it",
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
        if is_ours or there.partitions != old[before].partitions:
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


def is_of_others(cluster: Cluster, fleet: Fleet, standing: ChangelogStanding, claims: Claims, topic: Topic) -> bool:
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
