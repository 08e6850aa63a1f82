"""What a migration does to the changelogs, what it costs, and what the way back costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from migrate.batch.changelog.broker_access import total_of
from migrate.batch.changelog.broker_checks import BrokerFacts
from migrate.batch.changelog.held_topics import changes_payloads, other_stores
from migrate.batch.preflight.check import CheckReport
from migrate.dry_run.dry_run_report import ChangelogPlan, Inventory, SampleConversion, TopicPlanned
from migrate.errors import RegistryError
from migrate.model.changelogs import Way
from migrate.model.display import duration, plural, size
from migrate.spec.schema_registry import SchemaRegistry

WRITTEN_PER_SECOND = 400_000
READ_BACK_PER_SECOND = 600_000
BYTES_PER_SECOND = 60 << 20
"""Of one slot, as the benchmarks have them on a machine with two cores and its own broker."""
_FIXED_SECONDS = 1.0
"""To make the topics, and to begin and end transactions."""
_FRAME_BYTES = 512
"""Beside the key and the value of a record, with room to spare."""
_WHY: dict[Way, str] = {
    "none": "the conversion leaves the changelog's bytes as they are",
    "new-topic": "[target] names a new store: its topic is made and filled, the old topic and the old store stay",
    "append": '[changelog] way = "append": the store keeps its name, and the converted records follow the old ones in '
    "its topic",
}
_WAY_BACK: dict[Way, str] = {
    "none": "the changelog is as it was",
    "new-topic": "the new store is moved out again, and the group's input offsets are set back: what the new code has "
    "read is read once more, and its outputs are doubled; --discard-new-writes leaves the offsets",
    "append": "the old values are appended again: as many records, and the same time",
}

_OF_ROWS = "the store's topic is made and filled"
_ROWS_BACK = "the topic and the new directory are removed by hand: nothing was there before"
_REGISTER = (
    "before the new version starts, register it there, so that it gets the same id: with auto.register.schemas=false "
    "the first put fails otherwise, and what reads the topic by its subject does not find the schema"
)


def changelog_plan(at: BrokerFacts, found: Inventory, slots: int) -> ChangelogPlan:
    """The plan, by what the checks have found at the broker."""
    way = at.way
    is_done = way == "none" or at.standing.changelogs.is_verified
    records, record_bytes = (0, 0) if is_done else (found.records, found.record_bytes)
    tail = total_of(at.tails.values()) if at.tails else None
    return ChangelogPlan(
        way=way,
        why=_OF_ROWS if at.spec.source.rows else _WHY[way],
        topics=tuple(
            TopicPlanned(topic=each.topic, new_topic=each.new_topic, store_partition=each.store_partition)
            for each in at.changelogs
        ),
        held=at.held,
        records=records,
        bytes=record_bytes,
        write_seconds=_seconds(records, record_bytes, WRITTEN_PER_SECOND * slots, BYTES_PER_SECOND * slots),
        read_back_seconds=_seconds(records, record_bytes, READ_BACK_PER_SECOND * slots, BYTES_PER_SECOND * slots),
        assumed=f"{WRITTEN_PER_SECOND:,} records written or {READ_BACK_PER_SECOND:,} read in a second, or "
        f"{BYTES_PER_SECOND >> 20} MiB, on each of {plural(slots, 'slot')}: a machine with its own broker did that; "
        "yours, and the network, decide",
        tail_records=None if tail is None else tail.records,
        is_most=tail is not None and tail.is_most,
        catch_up_seconds=tail.seconds if tail is not None and way == "new-topic" else 0.0,
        way_back=_ROWS_BACK if at.spec.source.rows else _WAY_BACK[way],
        other_stores=other_stores(at.spec) if changes_payloads(at.conversion) else (),
    )


def _seconds(records: int, size: int, per_second: int, bytes_per_second: int) -> float:
    return _FIXED_SECONDS + max(records / per_second, size / bytes_per_second) if records else 0.0


def message_check(at: BrokerFacts, tried: SampleConversion) -> CheckReport:
    """Whether the largest record of the sample is one that the broker takes, which compression may change."""
    name, claim = "changelog.messages", "the broker takes records as large as the largest new one"
    sizes = (tried.key_sizes, tried.value_sizes)
    largest = sum(each.largest for each in sizes if each is not None) + _FRAME_BYTES
    topic = min(at.old_topics.values(), key=lambda each: each.max_message_bytes)
    limit = f"max.message.bytes of {topic.name} is {size(topic.max_message_bytes)}"
    if largest <= topic.max_message_bytes:
        return CheckReport(name=name, claim=claim, outcome="ok", detail=f"{size(largest)}; {limit}")
    return CheckReport(
        name=name,
        claim=claim,
        outcome="warning",
        detail=f"a record of {size(largest)} was found, and {limit}: unless it is compressed, the broker refuses it",
        fix="raise max.message.bytes of that topic (kafka-configs.sh --alter): a new topic gets the same; and the "
        "application's max.request.size (1 MiB by default), or its first put of such a record fails",
    )


def subject_checks(at: BrokerFacts) -> Iterator[CheckReport]:
    """Whether the new schemas are registered under the subjects that the new changelogs give their names to."""
    conversion = at.spec.conversion
    for part, change in (("key", conversion.key), ("value", conversion.value)):
        new = None if change is None else change.target.inner or change.target
        if new is None or new.registry is None or new.frame == "none":
            continue
        name, registry = new.guid if new.id is None else new.id, SchemaRegistry.at(new.registry)
        subjects = sorted({f"{each.new_topic}-{part}" for each in at.changelogs})
        why = ""
        try:
            left = [subject for subject in subjects if name not in registry.names_in(subject)]
        except RegistryError as error:
            left, why = subjects, f", as far as is known: {error.message}"
        yield CheckReport(
            name="changelog.subject",
            claim="the new schema is registered under the subject of the new changelog",
            outcome="warning" if left else "ok",
            detail=f"schema {name} is not registered under {', '.join(left)}{why}" if left else ", ".join(subjects),
            fix=_REGISTER if left else "",
        )


def retention_checks(at: BrokerFacts, logged_times: Sequence[tuple[int, float]], records: int) -> Iterator[CheckReport]:
    """Whether the broker would remove some of the `records` as too old; none where it removes none by their age."""
    ages = [(age, name) for name, topic in at.old_topics.items() if (age := topic.removes_after_ms) is not None]
    if not ages:
        return
    age, name = min(ages)
    setting = f"retention.ms of {name} ({duration(age / 1000)})"
    known = [(time_ms < time.time() * 1000 - age, weight) for time_ms, weight in logged_times if time_ms >= 0]
    old = sum(weight for is_old, weight in known if is_old) / max(1.0, sum(weight for _, weight in logged_times))
    detail = f"none of {plural(len(known), 'sampled record')} is older than {setting}"
    if old:
        detail = f"about {max(1, round(old * records)):,} of {plural(records, 'record')} are older than {setting}: "
        detail += "the broker removes them, and a restore lacks them"
    elif not known:
        detail = f"the broker removes what is older than {setting}, and these stores do not tell their records' times"
    is_kept = bool(known) and not old
    fix = "raise retention.ms, or take delete out of cleanup.policy (kafka-configs.sh --alter): "
    yield CheckReport(
        name="changelog.retention",
        claim="the broker keeps what is written to the changelogs",
        outcome="ok" if is_kept else "warning",
        detail=detail,
        fix="" if is_kept else f"{fix}a new topic gets the same",
    )
