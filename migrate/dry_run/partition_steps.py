"""What else changes with another number of store partitions, and in which order: no file of ours does that."""

from __future__ import annotations

from collections.abc import Iterator

from migrate.batch.changelog.broker_checks import BrokerFacts
from migrate.batch.source.source import Source, application_of
from migrate.dry_run.dry_run_report import PartitionsPlan
from migrate.spec.changelog_way import new_names
from migrate.spec.spec import Spec

_INPUTS = "the input topics (not known without [changelog])"


def partitions_plan(spec: Spec, source: Source, at: BrokerFacts | None, *, is_rekeyed: bool) -> PartitionsPlan | None:
    """The plan; None: they stay as they are. `at`: the broker, where the spec names one that answers.

    `is_rekeyed`: whether records get other keys.
    """
    new, old = spec.target.partitions, {source.system.layout.number(each) for each in source.partitions}
    if new is None:
        return None
    inputs, repartition, others = ((), (), ()) if at is None else _topics(at, source)
    return PartitionsPlan(
        old=len(old),
        new=new,
        partitioner=spec.partitioner,
        stores=spec.source.store_names,
        inputs=inputs,
        repartition=repartition,
        other_changelogs=others,
        steps=tuple(_steps(spec, new, inputs, repartition, others, is_rekeyed=is_rekeyed)),
    )


def _topics(at: BrokerFacts, source: Source) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The application's inputs, its repartition topics, and changelogs of stores that have no directory here."""
    application, names, there = application_of(at.spec), source.system.changelog, at.cluster.partitions()
    read = {topic for topic, _ in at.cluster.committed(application, stable=False)}
    on_disk = {each.store for each in source.system.discovery.store_directories(source.path)}
    repartition = sorted(topic for topic in there if names.is_read_once(application, topic))
    stores = {topic: names.store(application, topic) for topic in sorted(there)}
    others = (topic for topic, store in stores.items() if store is not None and store not in on_disk)
    return tuple(sorted(read - {*repartition})), tuple(repartition), tuple(others)


def _steps(
    spec: Spec,
    new: int,
    inputs: tuple[str, ...],
    repartition: tuple[str, ...],
    others: tuple[str, ...],
    *,
    is_rekeyed: bool,
) -> Iterator[str]:
    names = [f"{old} as {name}" for old, name in new_names(spec).items() if old != name]
    yield "let the application read its input, and its repartition topics, to the end; stop every instance"
    topics = "" if spec.changelog is None else f", and changelog topics of {new} partitions under the new names"
    yield f"stateferry run SPEC: makes {spec.target_path} with {new} tasks{topics}"
    yield (
        f"make {', '.join(inputs) or _INPUTS} again with {new} partitions, or new topics that the new code reads, and "
        "every topic that is joined with them, too: without the records that the stores have already, and with "
        f"producers that {'write the new keys and ' * is_rekeyed}spread keys by the same partitioner"
    )
    which = ", ".join(repartition) or "the application's topics that end in -repartition, if there are any"
    yield f"delete {which}: the application makes them again with {new} partitions"
    if others:
        yield (
            f"decide about {', '.join(others)}: their stores have no directory here (in memory, suppress(), another "
            "host); those of the same sub-topology must be deleted, and what they hold is lost, or get other names"
        )
    if names:
        yield f"let the new code name {', '.join(names)} (Materialized.as)"
    yield (
        f"start it on {spec.target_path}, with auto.offset.reset = earliest: its group has no offset in new partitions"
    )
