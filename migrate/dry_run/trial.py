"""The conversion tried on a sample, for real: by the reference path twice, and by the compiled one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from formats import Conversion, EntryError, Format
from formats.likeness import leaves_marks, looks_like
from formats.program import ByteProgram
from formats.registry import FORMATS
from migrate.dry_run.collisions import KeyOrder
from migrate.dry_run.examples import before_after
from migrate.dry_run.rejected import RejectsByReason
from migrate.dry_run.report import BeforeAfter, LookAlike
from migrate.dry_run.sizes import RecordSizes
from migrate.engine.portable import Converter
from migrate.keyrange import show_key
from migrate.plan_model import Lane
from migrate.rejects import CountRejects
from migrate.stores.batch import Batch
from migrate.trying import convert_twice

_MOST_DIFFERENCES = 3
_RUNS_PER_EXAMPLE = 16
_SURE = 0.95
_UNLIKE = 0.5
_LOOKS_AT_ALL = 1000
"""Records of a sample that are all looked at."""


@dataclass(slots=True)
class Trial:
    """What became of the records that it was given."""

    conversion: Conversion
    records: int = 0
    decoded: int = 0
    converted: int = 0
    dropped: int = 0
    expired: int = 0
    """Older than the new store's retention; no part of `records`."""
    unchanged: int = 0
    both_paths: int = 0
    partitions: int = 0
    rejects: RejectsByReason = field(default_factory=RejectsByReason)
    order: KeyOrder = field(default_factory=KeyOrder)
    old_sizes: RecordSizes = field(default_factory=RecordSizes)
    new_sizes: RecordSizes = field(default_factory=RecordSizes)
    differences: list[str] = field(default_factory=list)
    _looks: Counter[str] = field(default_factory=Counter)
    _looked: int = 0
    _seen: int = 0
    _now_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _store_partition: str = ""
    _runs: int = 0
    _program: ByteProgram | None = field(init=False)
    _marked: tuple[Format, ...] = field(init=False)
    """Formats that the records may turn out to be of."""
    _candidates: list[BeforeAfter] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._program = self.conversion.program
        source = self.conversion.source
        self._marked = tuple(
            known
            for known in FORMATS
            if leaves_marks(known) and (source.column_families is None or known.is_segmented == source.is_segmented)
        )

    def begin(self, store_partition: str) -> None:
        """The next records are of another column family or RocksDB directory."""
        self.partitions += store_partition != self._store_partition
        self._store_partition = store_partition
        self._runs = 0
        self.rejects.begin(store_partition)
        self.order.begin(store_partition)

    def take(self, batch: Batch, lane: Lane, *, weight: float) -> None:
        """Try each record of a batch; `weight`: how many of the store's records each of them stands for.

        Raises RefusedError where the function is not pure.
        """
        self.records += len(batch)
        self.old_sizes.add(batch, weight)
        pairs = list(self._convert(batch, lane))
        self.converted += len(pairs)
        self.order.add((old, new) for old, _, new, _ in pairs)
        new = Batch([new for _, _, new, _ in pairs], [value for *_, value in pairs])
        if pairs:
            self.new_sizes.add(new, weight)
            self._keep_example(pairs)
        self._compare_paths(batch, new, lane)

    def _convert(self, batch: Batch, lane: Lane) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        for key, value in zip(batch.keys, batch.values, strict=True):
            self._look(key, value)
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
            yield key, value, *converted

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
        both = zip(
            zip(found.keys, found.values, strict=True), zip(expected.keys, expected.values, strict=True), strict=False
        )
        first = next((right[0] for left, right in both if left != right), batch.keys[0])
        if len(self.differences) < _MOST_DIFFERENCES:
            self.differences.append(f"{self._store_partition}: the two paths differ at the key {show_key(first)}")

    def _keep_example(self, pairs: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
        """One of each store partition, and one of every so many runs."""
        if self._runs % _RUNS_PER_EXAMPLE == 0:
            old_key, old_value, new_key, new_value = pairs[len(pairs) // 2]
            old, new = (old_key, old_value), (new_key, new_value)
            source, target = self.conversion.source, self.conversion.target
            self._candidates.append(before_after(self._store_partition, old, new, source=source, target=target))
        self._runs += 1

    @property
    def examples(self) -> tuple[BeforeAfter, ...]:
        """From the beginning, the middle and the end."""
        found = self._candidates
        places = sorted({0, len(found) // 2, len(found) - 1}) if found else []
        return tuple(found[place] for place in places)

    def _look(self, key: bytes, value: bytes) -> None:
        """At fewer and fewer of many records: each look takes as long as a conversion."""
        self._seen += 1
        if self._seen % (1 + self._looked // _LOOKS_AT_ALL):
            return
        self._looked += 1
        for known in self._marked:
            is_named = known.id == self.conversion.source.id
            self._looks[known.id] += looks_like(known, key, value, now_ms=self._now_ms, is_named=is_named)

    def look_alikes(self) -> tuple[LookAlike, ...]:
        """Known formats that the sample fits better than the one that was named."""
        if not self.records:
            return ()
        source = self.conversion.source
        found = [self._alike(known) for known in self._marked if known.id != source.id]
        named = self._share(source)
        if leaves_marks(source) and named < _UNLIKE:
            found.append(self._unlike(source, named))
        return tuple(each for each in found if each is not None)

    def _share(self, known: Format) -> float:
        if leaves_marks(known):
            return self._looks[known.id] / max(1, self._looked)
        return self.decoded / self.records if known.id == self.conversion.source.id else 1.0

    def _alike(self, known: Format) -> LookAlike | None:
        share, named = self._share(known), self._share(self.conversion.source)
        marks_of_source = self.conversion.source.carries
        if share < _SURE or (known.carries <= marks_of_source and share <= named):
            return None
        what = f"each ends with a {known.kind} of times that make sense" if known.is_segmented else _BEGINS
        return LookAlike(
            format=known.id,
            share=share,
            named_share=named,
            sentence=f"{share:.1%} of the sampled records look like {known.id} too: {what}; is "
            f"{self.conversion.source.id} what the old store has?",
        )

    def _unlike(self, source: Format, share: float) -> LookAlike:
        marks = "times that make sense" if source.is_segmented else "a timestamp that makes sense"
        other = self._other(source)
        unless = "" if other.carries else ", without one"
        return LookAlike(
            format=other.id,
            share=self._share(other),
            named_share=share,
            sentence=f"only {share:.1%} of the sampled records carry {marks}: are they {other.id}{unless}?",
        )

    def _other(self, source: Format) -> Format:
        """What the records may be instead: what most of them look like, or the format that leaves no marks."""
        mine = [known for known in FORMATS if known.system == source.system and known.id != source.id]
        alike = [known for known in mine if known in self._marked and known.column_families == source.column_families]
        best = max(alike, key=self._share, default=None)
        if best is not None and (source.is_segmented or self._share(best) > _UNLIKE):
            return best
        return next(known for known in mine if not known.carries)


_BEGINS = "each begins with a timestamp that makes sense"
