"""What a migration does to the changelogs, what it costs, and what the way back costs."""

from __future__ import annotations

from migrate.batch.changelog.broker.checks import AtBroker
from migrate.dry_run.report import ChangelogPlan, Inventory, TopicPlanned
from migrate.model.changelog import Way
from migrate.model.units import plural

RECORDS_PER_SECOND = 300_000
BYTES_PER_SECOND = 60 << 20
"""Assumed for one slot, for writing and for reading back; the broker and the network decide."""
CAUGHT_UP_PER_SECOND = 100_000
"""Records of a tail: read, converted, applied, written and compared."""
_WHY: dict[Way, str] = {
    "none": "the conversion leaves the changelog's bytes as they are",
    "new-topic": "the conversion changes what the changelog must hold, and [target] names a new store: its topic is "
    "made and filled, the old topic and the old store stay",
    "append": '[changelog] way = "append": the store keeps its name, and the converted records follow the old ones in '
    "its topic",
}
_WAY_BACK: dict[Way, str] = {
    "none": "the changelog is as it was",
    "new-topic": "the new store is moved out again, and the group's input offsets are set back: what the new code has "
    "read is read once more, and its outputs are doubled; --discard-new-writes leaves the offsets",
    "append": "the old values are appended again: as many records, and the same time",
}


def changelog_plan(at: AtBroker, found: Inventory, slots: int) -> ChangelogPlan:
    """The plan, by what the checks have found at the broker."""
    way = at.way
    records, size = (0, 0) if way == "none" else (found.records, found.record_bytes)
    seconds = max(records / RECORDS_PER_SECOND, size / BYTES_PER_SECOND) / slots
    tails = list(at.tails.values())
    tail = sum(each.records for each in tails)
    return ChangelogPlan(
        way=way,
        why=_WHY[way],
        topics=tuple(
            TopicPlanned(topic=each.topic, new_topic=each.new_topic, store_partition=each.store_partition)
            for each in at.changelogs
        ),
        records=records,
        bytes=size,
        write_seconds=seconds,
        read_back_seconds=seconds,
        assumed=f"{RECORDS_PER_SECOND:,} records or {BYTES_PER_SECOND >> 20} MiB a second on each of "
        f"{plural(slots, 'slot')}",
        tail_records=tail if tails else None,
        is_most=any(each.is_most for each in tails),
        catch_up_seconds=0.0 if way == "none" else tail / CAUGHT_UP_PER_SECOND,
        way_back=_WAY_BACK[way],
    )
