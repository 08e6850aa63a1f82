"""The conversion tried on a sample, for real: by the reference path twice, and by the compiled one."""

from __future__ import annotations

import time
from collections.abc import Iterator

from formats import Conversion, EntryError, Format
from formats.likeness import SURE, FormatSample, leaves_marks
from formats.registry import FORMATS
from migrate.batch.plan.sample import Entry, convert_twice
from migrate.dry_run.examples import before_after
from migrate.dry_run.key_order import KeyOrder
from migrate.dry_run.report import BeforeAfter, FormatHint
from migrate.dry_run.sizes import RecordSizes
from migrate.engine.converter import Converter
from migrate.engine.rejects import CountRejects, RejectsByReason
from migrate.model.key_range import show_key
from migrate.model.plan import Lane
from migrate.stores.batch import Batch

_MOST_DIFFERENCES = 3
_RUNS_PER_EXAMPLE = 16
_ALL_COMPARED = 1000
"""So many records of a sample are all compared with other formats, then fewer and fewer."""


class ConversionCounts:
    """What became of records."""

    def __init__(self) -> None:
        self.records = 0
        self.converted = 0
        self.dropped = 0
        self.expired = 0
        """Older than the new store's retention; no part of `records`."""
        self.unchanged = 0
        self.rejects = RejectsByReason()
        self.order = KeyOrder()
        self.old_sizes = RecordSizes()
        self.new_sizes = RecordSizes()

    def begin(self, store_partition: str) -> None:
        """The next records are of another column family or RocksDB directory."""
        self.rejects.begin(store_partition)
        self.order.begin(store_partition)


class SampleConverter(ConversionCounts):
    """What became of the sampled records."""

    def __init__(self, conversion: Conversion) -> None:
        super().__init__()
        self.conversion = conversion
        self.decoded = 0
        self.both_paths = 0
        self.partitions = 0
        self.differences: list[str] = []
        self._now_ms = int(time.time() * 1000)
        self._store_partition = ""
        self._runs = 0
        self._program = conversion.program
        self._candidates: list[BeforeAfter] = []
        source = conversion.source
        others = [known for known in FORMATS if known.id != source.id and leaves_marks(known)]
        if source.column_families is not None:
            others = [known for known in others if known.is_segmented == source.is_segmented]
        self._formats = (FormatSample(source), *(FormatSample(known, is_possible=False) for known in others))
        """The source's, and those that the records may turn out to be of."""

    def begin(self, store_partition: str) -> None:
        """As for all counts."""
        super().begin(store_partition)
        self.partitions += store_partition != self._store_partition
        self._store_partition = store_partition
        self._runs = 0

    def take(self, batch: Batch, lane: Lane, *, weight: float) -> None:
        """Try each record of a batch; `weight`: how many of the store's records each of them stands for.

        Raises RefusedError where the function is not pure.
        """
        self.records += len(batch)
        self.old_sizes.add(batch, weight)
        self._compare_formats(batch)
        pairs = list(self._convert(batch, lane))
        self.converted += len(pairs)
        new = Batch([new[0] for _, new in pairs], [new[1] for _, new in pairs])
        if pairs:
            self.order.add(new.keys, lambda: [old[0] for old, _ in pairs])
            self.new_sizes.add(new, weight)
            self._keep_example(pairs)
        self._compare_paths(batch, new, lane)

    def _convert(self, batch: Batch, lane: Lane) -> Iterator[tuple[Entry, Entry]]:
        for key, value in zip(batch.keys, batch.values, strict=True):
            try:
                converted = convert_twice(self.conversion, key, value)
            except EntryError as error:
                self.decoded += self._decodes(key, value)
                self.rejects.add(lane.source, key, value, str(error))
                continue
            self.decoded += 1
            if converted is None:
                self.dropped += 1
                continue
            self.unchanged += converted == (key, value)
            yield (key, value), converted

    def _decodes(self, key: bytes, value: bytes) -> bool:
        """Whether it is the function, or the target, that takes no such record."""
        try:
            self.conversion.source.decode(key, value)
        except EntryError:
            return False
        return True

    def _compare_paths(self, batch: Batch, expected: Batch, lane: Lane) -> None:
        """What the compiled path makes of the batch must be what the reference path made of it."""
        if self._program is None:
            return
        found = Converter(self.conversion, self._program, CountRejects(""), lane.source)(batch)
        self.both_paths += len(batch)
        if (found.keys, found.values) == (expected.keys, expected.values):
            return
        by_both = (zip(each.keys, each.values, strict=True) for each in (found, expected))
        first = next((right[0] for left, right in zip(*by_both, strict=False) if left != right), batch.keys[0])
        if len(self.differences) < _MOST_DIFFERENCES:
            self.differences.append(f"{self._store_partition}: the two paths differ at the key {show_key(first)}")

    def _keep_example(self, pairs: list[tuple[Entry, Entry]]) -> None:
        """One of each store partition, and one of every so many runs."""
        if self._runs % _RUNS_PER_EXAMPLE == 0:
            old, new = pairs[len(pairs) // 2]
            source, target = self.conversion.source, self.conversion.target
            self._candidates.append(before_after(self._store_partition, old, new, source=source, target=target))
        self._runs += 1

    @property
    def examples(self) -> tuple[BeforeAfter, ...]:
        """From the beginning, the middle and the end."""
        found = self._candidates
        places = sorted({0, len(found) // 2, len(found) - 1}) if found else []
        return tuple(found[place] for place in places)

    def _compare_formats(self, batch: Batch) -> None:
        """Fewer and fewer of many records: it takes as long as a conversion."""
        step = 1 + self._formats[0].sampled // _ALL_COMPARED
        for key, value in zip(batch.keys[::step], batch.values[::step], strict=True):
            for each in self._formats:
                each.add(key, value, now_ms=self._now_ms)

    def look_alikes(self) -> tuple[FormatHint, ...]:
        """Known formats that the sample fits better than the one that was named."""
        named, *others = self._formats
        source = named.known
        found = [
            self._look_alike(each.known, each, each.share)
            for each in others
            if each.share >= SURE and (each.known.carries - source.carries or each.share > named.share)
        ]
        if found or source.is_segmented or not (named.sampled and leaves_marks(source) and named.share <= 1 - SURE):
            return tuple(found)
        plain = (known for known in FORMATS if known.system == source.system and not known.carries)
        return tuple(self._look_alike(known, named, 1.0) for known in plain)

    def _look_alike(self, other: Format, counted: FormatSample, share: float) -> FormatHint:
        named = self._formats[0]
        return FormatHint(
            format=other.id,
            share=share,
            named_share=named.share,
            sentence=f"{counted.share:.1%} of the sampled records look like {counted.known.id}: "
            f"is the old store {other.id}, and not {named.known.id}?",
        )
