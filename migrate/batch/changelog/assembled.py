"""The new stores that changelogs are written of, and the parts that tasks write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formats import Format
from migrate.batch.changelog.overlay import kept_databases
from migrate.batch.changelog.standing import contents_of
from migrate.batch.plan.cut import cut
from migrate.model.changelog.written import Part, Topics
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
        return contents_of(self.receipts, parts)

    def parts(self, topics: Topics, target: Format) -> Iterator[Part]:
        """What is to be written, in tasks: by ranges of keys, but a history as a whole, in the order of time."""
        size = max(_PART_BYTES, sum(each.data_bytes for each in self.plan.databases) // _MOST_PARTS)
        for partition in (each.store_partition for each in topics.changelogs):
            databases = self.databases(partition)
            is_one = target.changelog_form.is_in_order_of_time or sum(each.data_bytes for each in databases) <= size
            if is_one or topics.way == "append":
                yield Part(store_partition=partition, database="")
            for database in () if is_one else databases:
                files = database_files(self.folders[partition] / database.database).immutable
                for keys in cut([(file, b"") for file in files if file.suffix == ".sst"], size).ranges:
                    yield Part(store_partition=partition, database=database.database, keys=keys)
