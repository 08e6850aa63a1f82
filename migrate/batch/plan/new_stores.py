"""The new stores that changelogs are written of, the parts that tasks write, and overlays.

An overlay holds the tails of a store partition as one RocksDB directory for each one of the new store. For each new key
that a tail has touched it holds the last entry, in the form of `kafka.latest`: the new value, or that there is none.
Assembling lays it over the chunks; a verification compares its keys with it, and all others with the chunks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from formats import get_format
from migrate.batch.context import Context
from migrate.batch.plan.cut import key_ranges
from migrate.errors import CorruptionError
from migrate.kafka.latest import unpacked
from migrate.model.changelogs import Tail, TopicPart, Topics
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.store_partition import StorePartition
from migrate.stores.files import remove_tree
from migrate.stores.rocksdb.openings import open_pooled
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database

_PART_BYTES = 64 << 20
"""What a kill loses of each slot's work. It does not depend on the slots: parts stay the same from run to run."""
_MOST_PARTS = 4096
"""In larger stores the parts grow instead: each has a transactional id, which the broker remembers for a week."""


def plan_of(plan: Plan, partition: str, database: str) -> DatabasePlan:
    """The plan of a RocksDB directory of a new store partition, also of one that only tails have records for."""
    kept = [each for each in plan.databases if each.is_kept]
    mine = [each for each in kept if each.store_partition == partition]
    if known := [each for each in mine if each.database == database]:
        return known[0]
    like = (mine or kept)[-1]  # segments of one store differ in their times alone
    changes = {"store_partition": partition, "database": database, "inputs": (), "times": None, "data_bytes": 0}
    carried_from = like.carriers if mine else ()
    return like.model_copy(update={**changes, "carried_from": carried_from, "is_of_tails": True})


def kept_databases(plan: Plan, partition: StorePartition) -> list[DatabasePlan]:
    """The RocksDB directories of a new store partition, with its tails applied to it."""
    return [plan_of(plan, partition.id, name) for name in plan.new_partition(partition).databases]


def make_overlay(home: Path, tails: Sequence[Tail], databases: Sequence[str], folder: Path, links: Path) -> None:
    """Make the overlay of these RocksDB directories in `folder`; of a key in several tails, the last entry counts.

    `links`: an empty folder for links, which ingestion moves. Raises CorruptionError where a file is gone.
    """
    remove_tree(folder)
    files: defaultdict[str, defaultdict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for tail in tails:
        for number, written in enumerate(tail.files):
            if written.database in databases:
                link = links / f"tail-{tail.number}-{number}.sst"
                link_written(home / written.file, link, "stateferry catch-up SPEC makes that tail again")
                files[written.database][written.family].append(link)
    folder.mkdir(parents=True)  # there may be nothing to apply
    for database, runs in files.items():
        create_database(folder / database, dict.fromkeys(runs, TableOptions()), runs, {})


def link_written(file: Path, link: Path, hint: str) -> None:
    """Link a file of an earlier step, since ingestion moves what it is given. Raises CorruptionError if it is gone."""
    try:
        link.hardlink_to(file)
    except FileNotFoundError as error:
        raise CorruptionError(f"{file} was removed after it was written", hint=hint, place=file) from error


def overlay_of(folder: Path | None, database: str) -> Path | None:
    """The overlay of one RocksDB directory in the overlays of a store partition; None: no tail has touched it."""
    return folder / database if folder is not None and (folder / database / "CURRENT").exists() else None


def write_changes(overlay: Path | None, links: Path) -> dict[str, list[Path]]:
    """What an overlay puts and deletes, as an SST file for each column family with any, in `links`."""
    written: dict[str, list[Path]] = {}
    if overlay is None:
        return written
    with open_pooled(overlay) as database:
        for number, family in enumerate(database.families):
            writer = SstWriter(links / f"changes-{number}.sst", TableOptions())
            for batch in database.batches(family):
                entries = unpacked(batch)
                writer.write_changes(entries.keys, entries.values)
            written[family] = writer.finish()
    return written


def parts_of(context: Context, topics: Topics) -> Iterator[TopicPart]:
    """What is to be written, in tasks: by ranges of keys, but a history as a whole, in the order of time."""
    plan, folders = context.plan, context.new_stores
    size = max(_PART_BYTES, sum(each.data_bytes for each in plan.databases) // _MOST_PARTS)
    for partition in (each.store_partition for each in topics.changelogs):
        databases = kept_databases(plan, plan.partition(partition))
        form = get_format(context.ref_of(partition).target).changelog_form
        is_one = form.is_in_order_of_time or sum(each.data_bytes for each in databases) <= size
        if is_one or topics.way == "append":
            yield TopicPart(store_partition=partition, database="")
        for database in () if is_one else databases:
            for keys in key_ranges([folders[partition] / database.database], size):
                yield TopicPart(store_partition=partition, database=database.database, keys=keys)
