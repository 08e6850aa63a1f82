"""The changelog records that a new store stands for, and the tombstones of the keys that the old one alone has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from formats import get_format
from migrate.batch.chunk.merged_scan import MergedScan
from migrate.batch.chunk.reader import Inputs, open_inputs
from migrate.batch.chunk.side_by_side import Changes, batches_without
from migrate.batch.chunk.tail import TailEntries
from migrate.batch.chunk.times import TimesColumn, open_times
from migrate.engine.changelog import keyed_by_time, keyed_plainly, to_changelog
from migrate.engine.columns import read_times
from migrate.kafka.latest import Latest, unpacked
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.batch import Batch
from migrate.stores.changelog_batch import ChangelogBatch
from migrate.stores.rocksdb.openings import open_pooled


@dataclass(frozen=True, slots=True)
class NewEntries:
    """Entries of a new store partition, in a form that a task can carry."""

    format: str
    directories: tuple[str, ...]
    families: tuple[str, ...]
    keys: KeyRange
    times: str | None = None
    """The run that the records take their times from, where the entries do not tell them; None: they tell them."""
    newest_ms: int = -1
    """The time of keys that are not in that run."""
    overlays: tuple[str, ...] = ()
    """What tails have changed: their keys have the times of their records in it."""

    @property
    def is_in_order_of_time(self) -> bool:
        """Whether their records have to be written in the order of time, and one key may have several."""
        return get_format(self.format).changelog_form.is_in_order_of_time

    def records(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """Their changelog records, in key order; of several directories in any order where a key has several."""
        form = get_format(self.format)
        convert = to_changelog(form)
        with ExitStack() as stack:
            opened = [stack.enter_context(open_pooled(Path(directory))) for directory in self.directories]
            places = [(each, family) for each in opened for family in self.families if family in each.families]
            scans = [batches_without(form.position_keys, *place, self.keys) for place in places]
            run = stack.enter_context(open_times(self.times))
            times = None if run is None else TimesColumn(run, self.newest_ms)
            overlays = [stack.enter_context(open_pooled(Path(each))) for each in self.overlays]
            changes = [Changes(each, family) for each in overlays for family in self.families]
            for batch in chain.from_iterable(scans) if self.is_in_order_of_time else MergedScan(scans):
                check()
                known = None if times is None else read_times(b"".join(times(batch.keys)))
                latest = None if known is None else _with_changes(batch.keys, known, changes)
                if len(found := convert(batch, latest)):
                    yield found


def _with_changes(keys: list[bytes], times: Sequence[int], changes: Sequence[Changes]) -> Sequence[int]:
    """The times, with those of the records that tails have changed."""
    later: dict[bytes, int] = {}
    for each in changes:
        found = each.among(keys)
        records = unpacked(Batch([*found], [*found.values()])) if found else ChangelogBatch([], [], [])
        later.update(zip(records.keys, records.timestamps, strict=True))
    return [later.get(key, known) for key, known in zip(keys, times, strict=True)] if later else times


@dataclass(frozen=True, slots=True)
class OldEntries:
    """The entries of an old store partition, in a form that a task can carry."""

    format: str
    inputs: tuple[tuple[Inputs, FamilyMapping], ...]
    """What each RocksDB directory of the new store is made from."""
    times: str | None = None
    """The run that the records take their times from; None: the entries tell them, or nothing does."""
    newest_ms: int = -1
    """The time of keys that are not in that run."""

    def tombstones(self, new: ToWrite, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """A tombstone for each key in the old changelog that the new store does not have, in key order."""
        for old, kept in paired(self.records(check), new.records(check)):
            there = {*kept.keys}
            if keys := [key for key in dict.fromkeys(old.keys) if key not in there]:
                yield ChangelogBatch(keys, [None] * len(keys), [-1] * len(keys))

    def records(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """Their changelog records, in key order."""
        form = get_format(self.format)
        convert = to_changelog(form)
        with ExitStack() as stack:
            opened = [(stack.enter_context(open_inputs(inputs, form)), mapping) for inputs, mapping in self.inputs]
            run = stack.enter_context(open_times(self.times))
            times = None if run is None else TimesColumn(run, self.newest_ms)
            for batch in MergedScan([records.batches(mapping) for records, mapping in opened]):
                check()
                if len(found := convert(batch, None if times is None else read_times(b"".join(times(batch.keys))))):
                    yield found


ToWrite = NewEntries | TailEntries
"""What a changelog must hold."""
ToDelete = OldEntries | TailEntries
"""The keys of which a changelog must hold a tombstone."""


def in_order_of_time(batches: Iterator[ChangelogBatch], folder: Path) -> Iterator[ChangelogBatch]:
    """The records sorted by time, in bounded memory; `folder`: for what does not fit there."""
    with Latest.build(map(keyed_by_time, batches), folder) as latest:
        yield from map(keyed_plainly, latest.scan())


def paired(
    left: Iterator[ChangelogBatch], right: Iterator[ChangelogBatch]
) -> Iterator[tuple[ChangelogBatch, ChangelogBatch]]:
    """The records of two sides in key order, side by side: both of a pair are of the same span of keys."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        border = min(one.keys[-1], other.keys[-1])
        here, there = bisect_right(one.keys, border), bisect_right(other.keys, border)
        yield one.part(0, here), other.part(0, there)
        one = one.part(here, len(one)) if here < len(one) else next(left, None)
        other = other.part(there, len(other)) if there < len(other) else next(right, None)
    nothing = ChangelogBatch([], [], [])
    while one is not None:
        yield one, nothing
        one = next(left, None)
    while other is not None:
        yield nothing, other
        other = next(right, None)
