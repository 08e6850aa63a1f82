"""Where new keys belong: found out from the old ones, and from the number of partitions that the broker tells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats import EntryError, Format
from formats.partitioners import PARTITIONERS
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.model.display import plural
from migrate.model.plan import DatabasePlan, KeyPlace
from migrate.stores.rocksdb.database import open_read_only

LEAST = 50
"""So many old keys decide: by chance they would not all be where a partitioner puts them."""
_ENOUGH = 1000
_OF_EACH = SampleSize(records=100, max_bytes=1 << 20)

Keys = dict[str, set[bytes]]
"""Sampled keys as their serde wrote them, by store partition."""


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Of each store partition where its keys belong, as far as its store shows it, and what is known of each store."""

    of_partitions: tuple[KeyPlace, ...] = ()
    found: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Of the stores whose keys nobody can check: why."""


def find_key_places(
    source: Source, databases: Sequence[DatabasePlan], partitions: Mapping[str, tuple[int, int]]
) -> KeyPlaces:
    """Decide for each changelog. `partitions`: of each store partition, its number, and how many its changelog has."""
    places: list[KeyPlace] = []
    found, unknown = [], []
    topics = {each.id: source.system.changelog.topic("", each) for each in source.partitions}
    for topic, store in {topics[each.id]: each.store for each in source.partitions}.items():
        mine = [each for each in topics if topics[each] == topic]
        many = partitions[mine[0]][1]
        if many == 1:
            found.append(f"{store}: its changelog has one partition")
            continue
        keys = _sample(source, [each for each in databases if each.store_partition in mine])
        count = sum(map(len, keys.values()))
        names = source.system.partitioners
        misplaced = {name: _misplaced(name, keys, partitions) for name in names}
        fitting = [name for name, strays in misplaced.items() if not strays]
        if not names:
            unknown.append(f"{source.system.title} puts the keys of {store} anywhere")
        elif count < LEAST:
            unknown.append(f"{store} has {plural(count, 'sampled key')}, too few to show how its keys are spread")
        elif not fitting:
            strays = f"{min(misplaced.values()):,} of {count:,} sampled keys of {store}"
            unknown.append(f"{strays} are not where {' or '.join(names)} puts them")
        else:
            shown = f"{plural(count, 'sampled key')} {'shows' if count == 1 else 'show'}"
            found.append(f"{store}: {fitting[0]} of {plural(many, 'partition')}, as {shown}")
            places += (
                KeyPlace(store_partition=each, partitioner=fitting[0], partitions=many, number=partitions[each][0])
                for each in mine
            )
    return KeyPlaces(tuple(places), tuple(found), tuple(unknown))


def _misplaced(name: str, keys: Keys, partitions: Mapping[str, tuple[int, int]]) -> int:
    """How many of the keys are not where this partitioner puts them."""
    of = PARTITIONERS[name]
    return sum(of(key, partitions[each][1]) != partitions[each][0] for each, found in keys.items() for key in found)


def _sample(source: Source, databases: Sequence[DatabasePlan]) -> Keys:
    keys: Keys = {}
    partitions = {each.id: each for each in source.partitions}
    for plan in databases:
        if sum(map(len, keys.values())) >= _ENOUGH:
            break
        directories = source.directories(partitions[plan.store_partition])
        mine = keys.setdefault(plan.store_partition, set())
        for each in plan.sources:
            families = {family for mapping in plan.mappings for family in (mapping.source, *mapping.older)}
            mine.update(sampled_keys(directories[each.database], families, source.format))
    return keys


def sampled_keys(directory: Path, families: Collection[str], known: Format) -> Iterator[bytes]:
    """Keys of a RocksDB directory, from its whole key space, as their serde wrote them."""
    with open_read_only(directory) as opened:
        for family in sorted({*families} & {*opened.families}):
            for key in (key for batch in read_sample(opened, family, _OF_EACH).batches for key in batch.keys):
                if key.startswith(known.metadata_keys):
                    continue
                try:
                    yield known.key_payload(key)
                except EntryError:
                    continue  # its conversion is a reject
