"""The way of each changelog: its topics, how far the old store has applied it, the new store's line in a side file."""

from __future__ import annotations

from migrate.batch.context import Context
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.ledger.standing import Standing
from migrate.batch.plan.target_layout import PositionEntries, new_partition
from migrate.batch.source.snapshot import recorded_snapshot
from migrate.batch.source.source import Source, application_of, is_another_system, target_system
from migrate.errors import RefusedError
from migrate.model.changelogs import Changelog
from migrate.model.store_partition import Line, StorePartition
from migrate.spec.changelog_way import new_names
from migrate.spec.spec import Spec
from migrate.systems import System
from migrate.systems.base import ChangelogNames
from migrate.systems.checkpoint_file import OFFSET_UNKNOWN

_LONGEST_TOPIC = 249
"""org.apache.kafka.common.internals.Topic."""


def changelogs(spec: Spec, source: Source | None = None) -> tuple[Changelog, ...]:
    """The changelog of each store partition; without a `source`, of the snapshot in the migration's folder.

    Raises RefusedError for a store whose records are kept in a topic that is not its own, or in several partitions.
    """
    stores = recorded_snapshot(spec) if source is None else source
    return tuple(_changelog(spec, stores, partition) for partition in stores.partitions)


def new_changelogs(spec: Spec) -> tuple[Changelog, ...]:
    """The changelog of each new store partition. Raises RefusedError as `changelogs`."""
    old, many = changelogs(spec), spec.target.partitions
    if many is None or spec.source.rows:
        return old
    source = recorded_snapshot(spec)
    found = {partition.store: (partition, each) for partition, each in zip(source.partitions, old, strict=True)}
    return tuple(
        each.model_copy(
            update={
                "store_partition": f"{source.system.layout.sibling(partition, number)}/{partition.store}",
                "number": number,
                "claimed_by": 0,
            }
        )
        for partition, each in found.values()
        for number in range(many)
    )


def positions(spec: Spec, source: Source | None = None) -> dict[str, int | None]:
    """By store partition, the offset of the next record that its owner would apply; None: nothing states it."""
    stores = recorded_snapshot(spec) if source is None else source
    return {partition.id: stores.position(partition) for partition in stores.partitions}


def reached(spec: Spec, standing: Standing, source: Source | None = None) -> dict[str, int | None]:
    """By store partition, the offset up to which the new store has its old changelog: the tails follow the source.

    A new store partition that is made from several old ones has no such offset, and no tails.
    """
    plan, tails = standing.plan, {partition: found[-1].end for partition, found in standing.tails.items()}
    split = () if plan is None or not plan.old_partitions else plan.store_partitions
    return {**positions(spec, source), **dict.fromkeys(each.id for each in split), **tails}


def _changelog(spec: Spec, source: Source, partition: StorePartition) -> Changelog:
    topic, number = _old_topic(spec, source, partition)
    new, names = new_names(spec)[partition.store], target_system(spec).changelog
    if is_another_system(spec):
        new_topic = names.topic(application_of(spec), new_partition(spec, partition, ()))
        if new == partition.store and new_topic != topic:
            raise RefusedError(
                f"the changelog of {partition.id} is {topic}, and {target_system(spec).title} reads {new_topic}",
                hint="name a new store in [target] store if the conversion changes records; else this store cannot "
                "move to that system with its changelog",
            )
    elif new == partition.store:
        new_topic = topic
    else:
        new_topic = names.renamed(topic, partition, new)
    if len(new_topic) > _LONGEST_TOPIC:
        raise RefusedError(
            f"{new_topic} is longer than a topic's name can be: {_LONGEST_TOPIC} characters",
            hint="choose a shorter name in [target] store",
        )
    return Changelog(store_partition=partition.id, topic=topic, new_topic=new_topic, number=number)


def _old_topic(spec: Spec, source: Source, partition: StorePartition) -> tuple[str, int]:
    """The topic and the partition by the store's own position; by its names where nothing states one."""
    lines, names = source.changelog_lines(partition), source.system.changelog
    number = source.system.layout.number(partition)
    if (why := names.refusal(partition)) or number is None:
        raise RefusedError(
            f"{partition.id} {why or 'has no number, by which a topic has its changelog'}",
            hint="leave [changelog] out; stateferry plan SPEC says what then holds",
        )
    for line in lines:
        _check_own(names, partition, line, number)
    if len({topic for topic, _, _ in lines}) > 1:
        raise RefusedError(
            f"{partition.id} states positions in two changelogs: {lines[0][0]} and {lines[1][0]}",
            hint="one of them is left from an application id or prefix of before: start and stop the old application "
            "once, cleanly",
        )
    return (lines[0][0] if lines else names.topic(application_of(spec), partition)), number


def _check_own(names: ChangelogNames, partition: StorePartition, line: Line, number: int) -> None:
    topic, stated, _ = line
    if not names.is_own(topic, partition):
        raise RefusedError(
            f"{partition.id} is restored from {topic}, a topic that serves others too: it is not rewritten",
            hint="leave [changelog] out, and keep the records' form; or let the application keep the table in a store "
            "of its own (without topology.optimization), and migrate that",
        )
    if stated != number:
        raise RefusedError(
            f"{partition.id} is restored from partition {stated} of {topic}, and its task has partition {number}",
            hint="the checkpoint is damaged, or of another task: start and stop the old application once, cleanly",
        )


def rewritten_lines(system: System, standing: ChangelogStanding, partition: str) -> tuple[Line, ...] | None:
    """The lines of a new store partition; None: nothing was written for it, and its changelog stays the old one's.

    A topic of its own without records has a line, too: some releases remove all stores of a task that lacks one.
    """
    topics = standing.topics
    if topics is None:
        return None
    changelog, last = topics.of(partition), standing.last_offsets[partition]
    if last is None and topics.way == "append":
        return None
    return (line_after(system, changelog.new_topic, changelog.number, last),)


def every_rewritten_line(context: Context) -> dict[str, tuple[Line, ...]]:
    """The lines of each new store partition for which records were written."""
    system, standing = target_system(context.spec), context.standing.changelogs
    found = {each.id: rewritten_lines(system, standing, each.id) for each in context.plan.store_partitions}
    return {partition: lines for partition, lines in found.items() if lines is not None}


def position_entries(context: Context) -> PositionEntries:
    """The entries that state changelog offsets in the new stores, as far as their changelogs are written by now."""
    return PositionEntries(context.spec, context.plan, every_rewritten_line(context))


def line_after(system: System, topic: str, number: int, last: int | None) -> Line:
    """The line of a store that has applied this record, by the system's own count; None: there is no record."""
    offset = (-1 if last is None else last) + system.offsets.ahead
    return topic, number, offset if offset >= 0 else OFFSET_UNKNOWN
