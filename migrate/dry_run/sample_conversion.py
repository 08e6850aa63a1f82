"""Convert records without writing them: a sample by both paths, and every record as a run does."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice, pairwise
from operator import eq, lt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from formats import Conversion, EntryError, Format
from formats.likeness import Rivals
from formats.program import IDENTITY
from migrate.batch.plan.sample import Entry, can_be_read, convert_sample
from migrate.dry_run.dry_run_report import BeforeAfter, Collision, FormatHint, Inventory, SampleConversion, Sizes
from migrate.dry_run.examples import before_after
from migrate.engine.changelog_codec import logged_times
from migrate.engine.chunk_source import ChunkSource
from migrate.engine.columns import unpacked_times
from migrate.engine.key_times import TimesColumn
from migrate.engine.left_out import LeftOut
from migrate.engine.portable import Converter, make_converter, pump
from migrate.engine.rejects import CountRejects, RejectsByReason
from migrate.model.display import plural
from migrate.model.key_range import show_key
from migrate.model.plan import DatabasePlan, FamilyMapping, KeyPlace, elsewhere
from migrate.model.preview import shown
from migrate.spec.allowed import LOST_FIELDS
from migrate.stores.batch import Batch
from migrate.systems import STANDALONE, owner_around

_MOST_DIFFERENCES = 3
_MOST_COLLISIONS = 3
_RUNS_PER_EXAMPLE = 16
_ALL_COMPARED = 1000
"""The first records of a sample are all compared with other formats, later ones more and more rarely."""
_EXACT = 4096
"""Larger sizes are rounded up by less than 1 %, to limit the number of different sizes."""
_STEPS = 128
OldKeys = Callable[[], list[bytes]]


class ConversionCounts:
    """Counts of the records that were converted, and their sizes."""

    def __init__(self, conversion: Conversion) -> None:
        self.records = 0
        self.converted = 0
        self.left_out = LeftOut()
        self.expired = 0
        """Records older than the new store's retention, which are not part of `records`."""
        self.unchanged = 0
        self.rejects = RejectsByReason()
        self.order = KeyOrder()
        self.old_sizes = RecordSizes()
        self.new_sizes = RecordSizes()
        self.conversion = conversion
        self._program = conversion.program

    def begin(self, store_partition: str, key_place: KeyPlace | None = None) -> None:
        """The next records are of another column family or RocksDB directory, whose keys belong in this place."""
        self.conversion = replace(self.conversion, elsewhere=elsewhere(key_place))
        self.rejects.begin(store_partition)
        self.order.begin(store_partition)


class SampleConverter(ConversionCounts):
    """Converts sampled records, twice by the reference path and once by the compiled one."""

    def __init__(self, conversion: Conversion, path: Path) -> None:
        super().__init__(conversion)
        self.decoded = 0
        self.both_paths = 0
        self.store_partitions: set[str] = set()
        self.differences: list[str] = []
        self.lost = Counter[str]()
        """Sampled records that hold something which the new schema leaves out, by its words."""
        self._now_ms = int(time.time() * 1000)
        self._store_partition = ""
        self._runs = 0
        self.logged_times: list[tuple[int, float]] = []
        """The times that records get in the changelog, each with its weight."""
        self._examples: list[BeforeAfter] = []
        self._rivals = Rivals(conversion.source, _owner(conversion.source, path))

    def begin(self, store_partition: str, key_place: KeyPlace | None = None) -> None:
        super().begin(store_partition, key_place)
        self.store_partitions.add(store_partition)
        self._store_partition = store_partition
        self._runs = 0

    def take(self, batch: Batch, mapping: FamilyMapping, times: TimesColumn | None = None, *, weight: float) -> None:
        """Convert each record of a batch; `weight`: the number of the store's records that each one represents.

        `times`: those of the changelog, where the new store takes them.

        Raises RefusedError where the function is not pure.
        """
        self.records += len(batch)
        self.old_sizes.add(batch, weight)
        self._compare_formats(batch)
        packed = None if times is None else times(batch.keys)
        pairs = list(self._convert(batch, mapping, unpacked_times(packed, len(batch))))
        self.converted += len(pairs)
        new = Batch([new[0] for _, new in pairs], [new[1] for _, new in pairs])
        if pairs:
            self.order.add(new.keys, lambda: [old[0] for old, _ in pairs])
            self.new_sizes.add(new, weight)
            self.logged_times += ((at, weight) for at in logged_times(self.conversion.target, new))
            self._keep_example(*pairs[len(pairs) // 2])
        self._compare_paths(batch, new, mapping, packed)

    def _convert(
        self, batch: Batch, mapping: FamilyMapping, times: Sequence[int | None]
    ) -> Iterator[tuple[Entry, Entry]]:
        may_lose_fields = bool(self.conversion.lost_fields)
        for key, value, time_ms in zip(batch.keys, batch.values, times, strict=True):
            try:
                converted, dropped = convert_sample(self.conversion, key, value, time_ms)
            except EntryError as error:
                self.decoded += can_be_read(self.conversion.source, (key, value))
                self.rejects.add(mapping.source, key, value, str(error), error.place)
                continue
            self.decoded += 1
            if dropped or converted is None:
                self.left_out.add(key, dropped, is_written=converted is not None)
            if converted is None:
                continue
            self.unchanged += converted == (key, value)
            if may_lose_fields:
                self.lost.update(self.conversion.lost_in(key, value))
            yield (key, value), converted

    def _compare_paths(
        self, batch: Batch, expected: Batch, mapping: FamilyMapping, times: Sequence[bytes] | None
    ) -> None:
        """Compare the compiled path's result for a batch with `expected`, the reference path's."""
        program = self._program if times is None else self.conversion.timed_program
        if program is None:
            return
        found = Converter(self.conversion, program, CountRejects(""), mapping.source)(batch, times)
        self.both_paths += len(batch)
        if (found.keys, found.values) == (expected.keys, expected.values):
            return
        by_both = (zip(each.keys, each.values, strict=True) for each in (found, expected))
        first = next((right[0] for left, right in zip(*by_both, strict=False) if left != right), batch.keys[0])
        if len(self.differences) < _MOST_DIFFERENCES:
            self.differences.append(f"{self._store_partition}: the two paths differ at the key {show_key(first)}")

    def _keep_example(self, old: Entry, new: Entry) -> None:
        """Keep one record of each store partition, and one of every 16 runs of neighbouring records."""
        if self._runs % _RUNS_PER_EXAMPLE == 0:
            source, target = self.conversion.source, self.conversion.target
            self._examples.append(before_after(self._store_partition, old, new, source=source, target=target))
        self._runs += 1

    @property
    def examples(self) -> tuple[BeforeAfter, ...]:
        """At most three examples: from the beginning, the middle and the end."""
        kept = self._examples
        places = sorted({0, len(kept) // 2, len(kept) - 1}) if kept else []
        return tuple(kept[place] for place in places)

    def _compare_formats(self, batch: Batch) -> None:
        """Count likeness to each format, of fewer and fewer records: decoding takes as long as a conversion."""
        step = 1 + self._rivals.named.sampled // _ALL_COMPARED
        for key, value in zip(batch.keys[::step], batch.values[::step], strict=True):
            self._rivals.add(key, value, now_ms=self._now_ms)

    def format_hints(self) -> tuple[FormatHint, ...]:
        """Known formats that the sample fits better than the one that the spec names."""
        return tuple(
            FormatHint(format=known.id, share=share, named_share=self._rivals.named.share, sentence=sentence)
            for known, share, sentence in self._rivals.better()
        )


class FullScan(ConversionCounts):
    """Converts every record as a run does, and keeps counts and a few examples only."""

    def __init__(self, conversion: Conversion) -> None:
        super().__init__(conversion)
        self._keeps_keys = self._program is not None and self._program.key == IDENTITY
        self._source_batch = Batch([], [])
        self._times: Sequence[bytes] | None = None

    def take(
        self,
        records: ChunkSource,
        plan: DatabasePlan,
        mapping: FamilyMapping,
        on_progress: Callable[[int], None],
        key_place: KeyPlace | None = None,
    ) -> None:
        """Convert the records that a new RocksDB directory is made of. Raises CorruptionError, as a run does."""
        self.begin(plan.store_partition, key_place)

        def count(batch: Batch) -> None:
            self._source_batch = batch
            self.old_sizes.add(batch)
            on_progress(len(batch))

        if not plan.is_kept:
            for batch in records.batches(mapping):
                count(batch)
                self.expired += len(batch)
        else:
            how = (self.rejects, mapping.source)
            converter = make_converter(self.conversion, records.known_times, *how, left_out=self.left_out)
            if (look_up := converter.times) is not None:
                converter.times = lambda keys: self._see_times(look_up(keys))
            pumped = pump(records.batches(mapping), converter, self, count)
            self.records += pumped.scanned.records
            self.converted += pumped.written.records
        self._source_batch = Batch([], [])

    def write(self, batch: Batch) -> None:
        """Count a converted batch: the scan is the sink of its own pump."""
        self.new_sizes.add(batch)
        if not self._keeps_keys:
            self.order.add(batch.keys, partial(self._converted_keys, self._source_batch))
        self.unchanged += _unchanged(self._source_batch, batch)

    def _see_times(self, times: Sequence[bytes]) -> Sequence[bytes]:
        self._times = times
        return times

    def _converted_keys(self, batch: Batch) -> list[bytes]:
        records = zip(batch.keys, batch.values, unpacked_times(self._times, len(batch)), strict=True)
        return [record[0] for record in records if self._is_written(*record)]

    def _is_written(self, key: bytes, value: bytes, time_ms: int | None) -> bool:
        try:
            return self.conversion.convert(key, value, time_ms) is not None
        except EntryError:
            return False


def conversion_results(
    sample: SampleConverter, counts: ConversionCounts, inventory: Inventory, seed: int, times: str = ""
) -> SampleConversion:
    """The results of the conversion; `counts`: of the sample, or of all records; `times`: where these come from."""
    conversion = sample.conversion
    return SampleConversion(
        records=counts.records,
        is_full=inventory.exact and counts.records + counts.expired == inventory.records,
        seed=seed,
        store_partitions_read=len(sample.store_partitions),
        decoded=sample.decoded,
        sampled=sample.records,
        converted=counts.converted,
        rejected=counts.rejects.count,
        dropped=counts.left_out.dropped,
        dropped_keys=counts.left_out.first_keys,
        not_carried=counts.left_out.not_carried,
        expired=counts.expired,
        unchanged=counts.unchanged,
        rejects=counts.rejects.reasons,
        look_alikes=sample.format_hints(),
        examples=sample.examples,
        collisions=tuple(counts.order.collisions or sample.order.collisions),
        colliding_keys=max(counts.order.colliding, sample.order.colliding),
        out_of_order=counts.order.out_of_order or sample.order.out_of_order,
        losses=conversion.losses,
        losses_in_words=(
            *(
                f"the {loss.removeprefix('loss:')} of every record: the new format has no room for it"
                for loss in conversion.losses
                if loss != LOST_FIELDS
            ),
            *(
                f"{loss}: held by {sample.lost[loss]:,} of {plural(sample.records, 'sampled record')}"
                for loss in conversion.lost_fields
            ),
        ),
        both_paths=sample.both_paths,
        differences=tuple(sample.differences),
        program=None if conversion.program is None else str(conversion.program),
        key_sizes=counts.new_sizes.keys.sizes(),
        value_sizes=counts.new_sizes.values.sizes(),
        times=times,
    )


def _owner(source: Format, path: Path) -> str | None:
    """The name of the system that the old stores belong to; None: it may be any."""
    if source.system != STANDALONE.name:
        return source.system
    around = owner_around(path)
    return None if around is None else around[1].name


def _unchanged(old: Batch, new: Batch) -> int:
    if len(old) == len(new):
        return sum(map(eq, zip(old.keys, old.values, strict=True), zip(new.keys, new.values, strict=True)))
    before = dict(zip(old.keys, old.values, strict=True))
    return sum(before.get(key) == value for key, value in zip(new.keys, new.values, strict=True))


class KeyOrder:
    """Compares neighbouring new keys, one column family of a store partition after the other."""

    def __init__(self) -> None:
        self.colliding = 0
        self.collisions: list[Collision] = []
        self.out_of_order: Collision | None = None
        self._last: tuple[bytes, OldKeys] | None = None
        self._store_partition = ""

    def begin(self, store_partition: str) -> None:
        self._store_partition = store_partition
        self._last = None

    def add(self, keys: list[bytes], old_keys: OldKeys) -> None:
        """Compare new keys, in the order of the old ones; `old_keys` returns the old ones, for an example."""
        last = [] if self._last is None else [self._last[0]]
        if (last and last[0] >= keys[0]) or not all(map(lt, keys, islice(keys, 1, None))):
            last_old = [] if self._last is None else self._last[1]()[-1:]
            self._compare([*zip(last_old + old_keys(), last + keys, strict=True)])
        self._last = keys[-1], old_keys

    def _compare(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Compare neighbours among (old key, new key)."""
        for (first, before), (second, key) in pairwise(pairs):
            if before < key:
                continue
            found = Collision(
                store_partition=self._store_partition, first=shown(first), second=shown(second), new_key=shown(key)
            )
            if before > key:
                self.out_of_order = self.out_of_order or found
                continue
            self.colliding += 1
            if len(self.collisions) < _MOST_COLLISIONS:
                self.collisions.append(found)


class SizeCounter:
    """Counts of sizes."""

    def __init__(self) -> None:
        self._weights: Counter[int] = Counter()
        self._largest = 0

    def add(self, sizes: npt.NDArray[np.uint32], weight: float = 1.0) -> None:
        """Count each size as `weight` records."""
        self._largest = max(self._largest, int(sizes.max()))
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            self._weights[_rounded(int(size))] += count * weight

    def sizes(self) -> Sizes | None:
        """Quantiles and buckets of the sizes; None: nothing was counted."""
        if not self._weights:
            return None
        ascending = sorted(self._weights.items())
        passed = list(accumulate(weight for _, weight in ascending))
        p50, p99 = (ascending[bisect_left(passed, part * passed[-1])][0] for part in (0.5, 0.99))
        return Sizes(
            p50=min(p50, self._largest),
            p99=min(p99, self._largest),
            largest=self._largest,
            buckets=self._buckets(passed[-1]),
        )

    def _buckets(self, total: float) -> tuple[tuple[int, float], ...]:
        shares: defaultdict[int, float] = defaultdict(float)
        for size, weight in self._weights.items():
            shares[1 << (size - 1).bit_length() if size else 0] += weight / total
        bounds = [0] if 0 in shares else []
        bounds += [1 << power for power in range(max(min(shares), 1).bit_length() - 1, max(shares).bit_length())]
        return tuple((bound, round(float(shares[bound]), 6)) for bound in bounds)


class RecordSizes:
    """Sizes of keys and of values."""

    def __init__(self) -> None:
        self.keys = SizeCounter()
        self.values = SizeCounter()

    def add(self, batch: Batch, weight: float = 1.0) -> None:
        """Count a batch that is not empty."""
        lengths = np.frombuffer(batch.lengths, dtype="<u4").reshape(-1, 2)
        self.keys.add(lengths[:, 0], weight)
        self.values.add(lengths[:, 1], weight)


def _rounded(size: int) -> int:
    if size <= _EXACT:
        return size
    step = 1 << max(0, size.bit_length() - _STEPS.bit_length())
    return -(-size // step) * step
