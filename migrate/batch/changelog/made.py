"""The topics of a migration, for removal: those that it made, and the old ones that nothing uses any more."""

from __future__ import annotations

from migrate.batch.changelog.standing import ChangelogStanding
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Topic
from migrate.model.changelog import Topics


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
    return [topic for topic in there if topic.id in ids or _is_empty(cluster, topic)]


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


def _is_empty(cluster: Cluster, topic: Topic) -> bool:
    return all(ends.start == ends.end for ends in cluster.ends(topic.name, range(topic.partitions)).values())
