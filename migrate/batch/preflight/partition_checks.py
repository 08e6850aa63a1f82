"""Checks of another number of store partitions: what must be here, how keys were placed, and what is still unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from formats.partitioners import PARTITIONERS, Partitioner
from migrate.batch.changelog.application_group import unread_input
from migrate.batch.changelog.broker_checks import BrokerFacts
from migrate.batch.plan.key_places import sampled_keys
from migrate.batch.preflight.check import Check
from migrate.batch.source.source import Source, application_of
from migrate.engine.split import misplaced_key
from migrate.errors import RefusedError
from migrate.model.display import plural
from migrate.model.plan import Share
from migrate.model.reports import InconclusiveCheck
from migrate.model.store_partition import StorePartition
from migrate.spec.partitioner import checked_partition, load_partitioner, partitioner_ref
from migrate.spec.spec import Spec

_TO_ONE_VOLUME = (
    "bring the task directories of all hosts to one volume, under one application's directory, and name that in "
    "[source] path; or make the old stores from their changelogs: [source] changelog = true"
)
_READ_ON = (
    "start the old application, let it read its input to the end with nothing new coming in, and stop it cleanly; then "
    "run the same command again"
)


def partition_checks(spec: Spec, source: Callable[[], Source], *, is_rekeyed: bool) -> Iterator[Check]:
    """The checks of the old stores. `is_rekeyed`: whether new keys may have other bytes, and belong to other tasks."""
    if spec.target.partitions is None or spec.source.rows:
        return
    needs = ("source.files", "partitions.tasks")
    yield Check(
        "partitions.tasks",
        "every old task is here",
        lambda: _old_tasks(spec, source(), is_rekeyed=is_rekeyed),
        needs[:1],
    )
    yield Check(
        "partitions.stores", "the spec names every store of these tasks", lambda: _stores(spec, source()), needs
    )
    yield Check("partitions.places", "sampled keys are where they belong", lambda: _places(spec, source()), needs)


def input_check(spec: Spec, at: Callable[[], BrokerFacts], source: Callable[[], Source]) -> Iterator[Check]:
    """The check of the application's input."""
    if spec.target.partitions is not None and not spec.source.rows:
        needs = ("partitions.tasks", *(() if spec.changelog is None else ("changelog.position",)))
        claim = "the application has read its input to the end"
        is_known = spec.changelog is not None
        yield Check("partitions.input", claim, lambda: _input(at(), source()) if is_known else _INPUT_UNKNOWN, needs)


def _old_tasks(spec: Spec, source: Source, *, is_rekeyed: bool) -> str | InconclusiveCheck:
    """Raises RefusedError unless every store has the old tasks 0 to n-1 of one sub-topology, and n or a key changes."""
    new, stores = spec.target.partitions, spec.source.store_names
    _check_numbered(source)
    old = max(len(_numbers(source, store)) for store in stores)
    for store in stores:
        if (numbers := _numbers(source, store)) != list(range(old)):
            missing = sorted({*range(max(old, numbers[-1] + 1))} - {*numbers})
            raise RefusedError(
                f"{store} has the tasks {_listed(numbers)} here, and not {_listed(missing)}: each new task has keys of "
                "several old ones",
                hint=f"{_TO_ONE_VOLUME}; one that is lost: start the old application once so that it restores it",
            )
    if old == new and not is_rekeyed:
        raise RefusedError(
            f"[target] partitions = {new}: the stores have {plural(old, 'partition')} already",
            hint="name the number that the new input topics have, or leave it out",
        )
    text = f"{plural(old, 'partition')} {'becomes' if old == 1 else 'become'} {new}"
    if is_rekeyed:
        text += ", and each record gets to the one of its new key"
    if spec.changelog is not None:
        return text
    return InconclusiveCheck(
        f"{text}; that the old ones are all {old}, only this directory says: without [changelog] no broker is asked",
        f"make sure that the old input topics have {plural(old, 'partition')}",
    )


def _check_numbered(source: Source) -> None:
    """Raises RefusedError for stores that are in no numbered tasks, or in those of several sub-topologies."""
    system, what = source.system, "[target] partitions"
    if not system.can_repartition:
        raise RefusedError(f"{what}: {system.title} is not known to spread keys over tasks", hint="leave it out")
    for each in source.partitions:
        is_numbered = system.layout.number(each) is not None and not system.changelog.refusal(each)
        if not is_numbered:
            why = "is of a global store or a named topology, which keeps its number of partitions"
            raise RefusedError(f"{what}: {each.id} {why}", hint="name the stores of numbered tasks only")
    found = sorted({str(system.layout.subtopology(each)) for each in source.partitions})
    if len(found) > 1:
        raise RefusedError(
            f"{what}: the stores are of several sub-topologies: {', '.join(found)}",
            hint="name the stores of one in this spec; a second spec takes the new directory as its [source] path",
        )


def _numbers(source: Source, store: str) -> list[int]:
    found = (source.system.layout.number(each) for each in source.partitions if each.store == store)
    return sorted(number for number in found if number is not None)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _stores(spec: Spec, source: Source) -> str:
    """Raises RefusedError for a store in the same tasks that the spec does not name: it would keep its old keys."""
    tasks = {each.task for each in source.partitions}
    there = source.system.discovery.store_directories(source.path)
    left = sorted({each.store for each in there if each.task in tasks} - {*spec.source.store_names})
    if left:
        raise RefusedError(
            f"the same tasks have stores that the spec does not name: {', '.join(left)}; the tasks of a sub-topology "
            "get another number of partitions with all their stores",
            hint="name them in [source] stores, those of another format with their own, which they keep: "
            f'{{ name = "{left[0]}", format = "..." }}; stateferry inspect shows their formats',
        )
    return ", ".join(spec.source.store_names)


def _places(spec: Spec, source: Source) -> str:
    """Raises RefusedError for a sampled key that is not in the task where the partitioner puts it."""
    name, new = spec.partitioner, spec.target.partitions
    assert new is not None
    of, checked = load_partitioner(name, partitioner_ref(spec)), 0
    for store in spec.source.store_names:
        share = Share(partitioner=name, old=len(_numbers(source, store)), new=new, number=0)
        keys = {each: _sampled(spec, source, each) for each in source.partitions if each.store == store}
        for partition, found in keys.items():
            for key in sorted(found):
                checked_partition(name, of, key, new)
                right = checked_partition(name, of, key, share.old)
                if right != source.system.layout.number(partition):
                    error = misplaced_key(share, partition.id, key, right)
                    error.hint = _other_partitioner(source, keys, share) or error.hint
                    raise error
            checked += len(found)
    return f"{name} puts {plural(checked, 'sampled key')} where they are; the run checks every key"


def _sampled(spec: Spec, source: Source, partition: StorePartition) -> set[bytes]:
    known = spec.of_store(partition.store).source_format
    families = [*(known.column_families or ()), *(each.name for each in known.older_families)]
    found: set[bytes] = set()
    for directory in source.directories(partition).values():
        found.update(sampled_keys(directory, families, known))
    return found


def _other_partitioner(source: Source, keys: dict[StorePartition, set[bytes]], share: Share) -> str:
    """Which known partitioner puts every key where it is; empty: none does."""

    def fits(of: Partitioner) -> bool:
        placed = ((source.system.layout.number(each), key) for each, found in keys.items() for key in found)
        return all(of(key, share.old) == number for number, key in placed)

    fitting = next((name for name, of in PARTITIONERS.items() if fits(of)), "")
    return fitting and f'every sampled key is where {fitting} puts it: [source] partitioner = "{fitting}"'


def _input(at: BrokerFacts, source: Source) -> str | InconclusiveCheck:
    """Raises RefusedError where input is unread: it would meet a task that no longer has its key."""
    for topic in at.old_topics.values():
        if topic.partitions != (old := len(at.changelogs) // len(at.old_topics)):
            raise RefusedError(
                f"{topic.name} has {plural(topic.partitions, 'partition')}, and its store {plural(old, 'task')} here",
                hint=_TO_ONE_VOLUME,
            )
    application = application_of(at.spec)
    topics, unread = unread_input(at.cluster, application, source.system.changelog)
    if unread:
        raise RefusedError(
            f"group {application} has not read {'; '.join(unread)}: what is unread would meet a task that no longer "
            "has its key",
            hint=_READ_ON,
        )
    if not topics:
        return InconclusiveCheck(
            f"the broker shows no offset of group {application}, by which its input topics are known",
            "make sure that the application has read its input to the end",
        )
    return f"{', '.join(topics)} read to the end"


_INPUT_UNKNOWN = InconclusiveCheck(
    "without [changelog] no broker is asked whether the application has read its input to the end",
    "let it read its input, and its repartition topics, to the end before it is stopped: what is unread would meet a "
    "task that no longer has its key",
)
