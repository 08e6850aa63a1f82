"""What the user of `[changelog] config` may do at the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migrate.batch.changelog.broker.group import hidden_offsets
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Topic
from migrate.model.changelog.written import Changelog, Way
from migrate.model.reports import Doubt

_RIGHTS = "docs/changelogs.md lists the rights that each way needs"
_ALLOWED: dict[Way, str] = {
    "none": "to read",
    "append": "to read and write",
    "new-topic": "to read the old topics, and make the new ones",
}


def check_rights(
    cluster: Cluster, application: str, way: Way, old: Mapping[str, Topic], every: Sequence[Changelog]
) -> str | Doubt:
    """Raises RefusedError for a right that the way needs and this user lacks. `old`: the old topics by name."""
    unknown = []
    for name, topic in old.items():
        needed = {"READ", "DESCRIBE_CONFIGS", *(("WRITE",) if way == "append" else ())}
        unknown += _missing(cluster, name, needed)
        for new in dict.fromkeys(each.new_topic for each in every if each.topic == name != each.new_topic):
            if cluster.topic(new) is None:
                settings = topic.settings_of_copy
                cluster.check_can_create(
                    new, partitions=topic.partitions, replication=topic.replication, settings=settings
                )
            else:
                unknown += _missing(cluster, new, {"READ", "WRITE"})
    if unknown:
        return Doubt(f"the broker does not say what this user may do with {', '.join(unknown)}", _RIGHTS)
    is_known = way != "none" and cluster.group(application).state not in ("DEAD", "UNKNOWN")
    if is_known and not cluster.committed(application, stable=False):
        return hidden_offsets(application)
    return _ALLOWED[way]


def _missing(cluster: Cluster, topic: str, needed: set[str]) -> list[str]:
    """The topic, if the broker does not say. Raises RefusedError for what is missing."""
    may = cluster.authorised(topic)
    if may is None:
        return [topic]
    if missing := sorted(needed - may):
        raise RefusedError(f"this user may not {', '.join(missing)} the topic {topic}", hint=_RIGHTS)
    return []
