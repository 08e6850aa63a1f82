"""The topics that a migration writes to: made, or found again, and recorded before the first record is written.

The intent is committed before a topic is made, and its id after: so a topic of that name that neither names is foreign.
Nothing is made to append to, and what was appended stays known.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formats import Format
from migrate.batch.changelog.overlay import kept_databases
from migrate.batch.changelog.standing import ChangelogStanding, content_of
from migrate.batch.changelog.ways import application_of, changelogs, way_of
from migrate.batch.context import Context
from migrate.batch.ledger.table import Ledger
from migrate.batch.plan.cut import cut
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster, Committed, Topic
from migrate.model.changelog import Changelog, Part, Topics
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
    """The topics to write to. Those of an earlier run serve if all that it wrote is there and still to be written.

    Raises RefusedError for a topic that is not ours.
    """
    standing = ChangelogStanding(ledger.rows)
    known = standing.topics
    if known is not None and _still_serves(known, standing, cluster, stores):
        return known
    wanted = Topics(
        way=way_of(context.spec, context.conversion),
        application=application_of(context.spec),
        changelogs=changelogs(context.spec),
    )
    old = {name: _existing(cluster, name) for name in {each.topic: None for each in wanted.changelogs}}
    former = list(_ours(standing, cluster, wanted, old))
    if wanted.way == "new-topic":
        ledger.commit(ledger.row(Step.CHANGELOG, detail=wanted.model_dump(mode="json")))
    context.notify("changelog.intended", topics=wanted)
    for topic in former:
        cluster.delete_topic(topic)
    new = {name: _made(cluster, name, old[before]) for name, before in _names(wanted).items()}
    context.notify("changelog.created", topics=wanted)
    starts = {each.store_partition: 0 for each in wanted.changelogs}
    if wanted.way == "append":
        starts = _ends(cluster, wanted) if known is None else dict(known.starts)
    opened = wanted.model_copy(
        update={
            "ids": {topic.name: topic.id for topic in (*old.values(), *new.values())},
            "starts": starts,
            "parts": tuple(_parts(wanted, stores, context.conversion.target)),
        }
    )
    ledger.commit(ledger.row(Step.CHANGELOG, detail=opened.model_dump(mode="json")))
    context.notify("changelog.opened", topics=opened)
    return opened


def mark_in_progress(cluster: Cluster, name: str, migration_id: str, topics: Topics) -> None:
    """Say at the broker that records are being appended: as an offset of a group of ours, since no reader of the topic
    must see it. `name`: the migration's."""
    _mark(cluster, name, topics, Committed(0, base64.b64encode(f"{migration_id} in progress".encode()).decode()))


def mark_done(cluster: Cluster, name: str, migration_id: str, topics: Topics) -> None:
    """Say at the broker that nothing of the migration is half written there any more."""
    _mark(cluster, name, topics, Committed(1, base64.b64encode(f"{migration_id} done".encode()).decode()))


def _mark(cluster: Cluster, name: str, topics: Topics, marker: Committed) -> None:
    cluster.set_committed(marker_group(name), {(each.new_topic, each.number): marker for each in topics.changelogs})


def marker_group(name: str) -> str:
    """The group whose offset marks the changelogs of a migration of that name."""
    return f"stateferry-{name}"


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
    ends = cluster.ends(changelog.new_topic, [changelog.number])[changelog.number]
    expires = topic is not None and "delete" in topic.settings.get("cleanup.policy", "")
    is_whole = expires or ends.start <= known.starts[changelog.store_partition]
    return is_whole and (last is None or ends.end > last)


def _places(stores: AssembledStores) -> set[tuple[str, str]]:
    return {(each.store_partition, each.database) for each in stores.plan.databases if each.is_kept}


def _names(topics: Topics) -> dict[str, str]:
    """The old topic of each new one."""
    return {each.new_topic: each.topic for each in topics.changelogs}


def _ours(standing: ChangelogStanding, cluster: Cluster, wanted: Topics, old: Mapping[str, Topic]) -> Iterator[Topic]:
    """The topics of the new names that are ours, and are to be made again. Raises RefusedError for a foreign one."""
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
    for name, before in _names(wanted).items():
        topic = cluster.topic(name)
        if topic is None:
            continue
        is_ours = topic.id in made
        if not is_ours and not (name in intended and _is_empty(cluster, topic)):
            raise RefusedError(
                f"the topic {name} exists already, and this migration did not make it",
                hint="if nobody needs it, delete it and run the command again; else give the new store another name "
                "in [target] store",
            )
        if is_ours or topic.partitions != old[before].partitions:
            yield topic


def check_not_foreign(standing: ChangelogStanding, cluster: Cluster, wanted: Topics, old: Mapping[str, Topic]) -> None:
    """Raises RefusedError where a topic of a new name is there, and this migration did not make it."""
    for _ in _ours(standing, cluster, wanted, old):
        pass


def _is_empty(cluster: Cluster, topic: Topic) -> bool:
    return all(ends.start == ends.end for ends in cluster.ends(topic.name, range(topic.partitions)).values())


def _existing(cluster: Cluster, name: str) -> Topic:
    topic = cluster.topic(name)
    if topic is None:
        raise RefusedError(
            f"the changelog {name} does not exist",
            hint="check [changelog] application_id, and that [changelog] bootstrap is the application's cluster",
        )
    return topic


def _made(cluster: Cluster, name: str, like: Topic) -> Topic:
    """The topic of this name, as the old one is; it exists where a run was killed before it recorded the id."""
    if name == like.name:
        return like
    return cluster.topic(name) or cluster.create_topic(
        name, partitions=like.partitions, replication=like.replication, settings=like.settings
    )


def _ends(cluster: Cluster, topics: Topics) -> dict[str, int]:
    """Where each changelog ends now, by store partition."""
    return {
        each.store_partition: cluster.ends(each.new_topic, [each.number])[each.number].end for each in topics.changelogs
    }


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
