"""The times that sampled records get, where the new store takes them from the changelog."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.batch.chunk.times import TimesColumn, keys_of
from migrate.batch.source.sampling import Sample, SampleSize, read_named, read_sample
from migrate.stores.rocksdb.database import Database


@dataclass(frozen=True, slots=True)
class KnownTimes:
    """A run of times for the sample of one store partition."""

    run: Database
    is_whole: bool
    """Whether it has what the changelog tells of every key; else only keys that its last records name."""
    unknown_ms: int
    """The time of keys that are not in the changelog."""

    def sample(self, database: Database, family: str, size: SampleSize) -> Sample:
        """A sample of records whose times are known."""
        if self.is_whole:
            return read_sample(database, family, size)
        return read_named(database, family, keys_of(self.run), size)

    def column(self) -> TimesColumn:
        """The look-up for one scan, in key order."""
        return TimesColumn(self.run, self.unknown_ms)
