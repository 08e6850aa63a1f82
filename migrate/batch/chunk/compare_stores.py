"""Comparing the new store on disk with what the old one converts to, with its overlay, or with the receipts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from migrate.batch.chunk.native_trace import Trace
from migrate.batch.stop import never_stop
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import FamilyWork, Hooks, NewFamily, Passed, compare, digest
from migrate.engine.left_out import LeftOut
from migrate.engine.new_parts import PartToCompare, compare_parts
from migrate.engine.portable import RecordDigest, converted, expected_and_actual, open_new, scan
from migrate.engine.rejects import CountRejects
from migrate.kafka.latest import unpacked
from migrate.model.comparison import FamilyCount, Mismatch, Verified, difference, differing
from migrate.model.engine_choice import EngineSetting
from migrate.model.key_range import KeyRange, show_key
from migrate.model.plan import FamilyMapping, KeyPlace, elsewhere
from migrate.model.receipt import Receipt, Written
from migrate.model.store_partition import place_name
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import checked_code
from migrate.spec.partitioner import checked_partitioner
from migrate.stores.batch import Batch
from migrate.stores.merge import batches_without, by_key, paired, untouched
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.openings import open_pooled


def compare_gaps(
    target: Database,
    partition: str,
    family: str,
    ends: Sequence[tuple[bytes, bytes]],
    *,
    left_out: Sequence[bytes] = (),
    touched: Database | None = None,
) -> Iterator[tuple[int, Mismatch]]:
    """(number of keys, the first one) of each gap that has extra keys.

    `ends`: each range's first and last new key; `left_out`: keys that are not compared; `touched`: the overlay, whose
    keys are not, either.
    """
    begin = [None, *(last + b"\0" for _, last in ends)]
    found = differing(partition, "key", "", "", family=family)
    for start, end in zip(begin, [*(first for first, _ in ends), None], strict=True):
        if start is not None and end is not None and end < start:
            order = {"key": end, "field": "order of keys", "expected": f"after {show_key(start[:-1])}"}
            yield 1, found.model_copy(update={**order, "actual": "not"})
        elif extra := _extra_keys(target, family, KeyRange(start=start, end=end), left_out, touched):
            count, first = extra
            yield count, found.model_copy(update={"kind": "extra", "key": first})


def _extra_keys(
    target: Database, family: str, keys: KeyRange, left_out: Sequence[bytes], touched: Database | None
) -> tuple[int, bytes] | None:
    next_one = target.sample(family, keys.start, 1).keys  # mostly the next range's first
    if not next_one or next_one[0] not in keys:
        return None
    counts = [(len(batch), batch.keys[0]) for batch in batches_without(left_out, target, family, keys, touched)]
    return (sum(count for count, _ in counts), counts[0][1]) if counts else None


@dataclass(frozen=True, slots=True)
class OverlayTask:
    """One column family of an overlay, to be compared with what the new store has for its keys."""

    store_partition: str
    database: str
    family: str
    target: str
    overlay: str
    conversion: ConversionRef
    size: int = 0
    """About how many bytes the task reads."""

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} {self.family}, what tails have changed"


def compare_overlay(task: OverlayTask, check: Callable[[], None]) -> Verified:
    """Compare each key of an overlay with what the new store has for it."""
    conversion = load_conversion(task.conversion)
    found = Verified(records=0)
    with open_pooled(Path(task.overlay)) as overlay, open_pooled(Path(task.target)) as target:
        for batch in overlay.batches(task.family):
            check()
            entries = unpacked(batch)
            found = found.model_copy(update={"records": found.records + len(entries)})
            for key, expected in zip(entries.keys, entries.values, strict=True):
                if (actual := target.get(task.family, key)) != expected:
                    where = (task.store_partition, task.family)
                    found = found.with_mismatch(difference(conversion.target, where, key, expected, actual))
    return found


@dataclass(frozen=True, slots=True)
class _FamilyTask:
    """A range of one new column family to compare, and the old records that it is made of."""

    store_partition: str
    database: str
    source: Inputs
    mapping: FamilyMapping
    keys: KeyRange
    conversion: ConversionRef
    key_place: KeyPlace | None = field(default=None, kw_only=True)
    """Where new keys belong; None: they are not checked."""
    overlay: Path | None = field(default=None, kw_only=True)
    """The tails' changes of the RocksDB directory: their keys are left out, and compared by a task of their own."""
    home: str = field(default="", kw_only=True)
    """The migration's folder, for a trace; empty: none is left."""
    engine: EngineSetting = field(default="auto", kw_only=True)
    partitioner: ConversionRef | None = field(default=None, kw_only=True)
    """The user's partitioner, where the number of partitions changes; None: a known one."""

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} {self.mapping.target} {self.keys}"

    def work(self) -> FamilyWork:
        conversion = replace(load_conversion(self.conversion), elsewhere=elsewhere(self.key_place))
        share = self.source.share
        own = None if share is None else checked_partitioner(share.partitioner, self.partitioner)
        return FamilyWork(self.source, self.mapping, self.keys, conversion, own)

    def hooks(self, check: Callable[[], None], trace: Trace | None = None) -> Hooks:
        """Counters of a pass over the old records: what the rewriting has left out is left out again."""
        guard = trace.left if trace is not None and self.home else nullcontext
        return Hooks(check, CountRejects(str(self)), LeftOut(), guard=guard)

    def new(self, target: str) -> NewFamily:
        """The new records, without the positions, which the driver compares."""
        left_out = load_conversion(self.conversion).position_keys
        return NewFamily(Path(target), self.mapping.target, left_out, self.overlay)


@dataclass(frozen=True, slots=True)
class CompareTask(_FamilyTask):
    """A key range of the old records of one new column family, to be converted and compared with the new records.

    `keys` are the source's: only the conversion shows where the new records of that range begin and end.
    """

    target: str | None
    """None: the records are older than the new store's retention; they are counted, and must not be in it."""
    size: int = 0
    """About how many bytes the task reads."""


@dataclass(frozen=True, slots=True)
class ComparePartsTask:
    """One key range of old store partitions, to be compared with each of the new ones that are made from them."""

    parts: tuple[CompareTask, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.parts)

    @property
    def conversion(self) -> ConversionRef:
        return self.parts[0].conversion

    def __str__(self) -> str:
        return f"{self.parts[0]} and {len(self.parts) - 1} more"


@dataclass(frozen=True, slots=True)
class DigestTask(_FamilyTask):
    """One column family of one finished chunk, and the part of the new store that the chunk answers for.

    `keys` are the chunk's, and name what differs.
    """

    target: str
    written: Written
    """The receipt's entry for the family."""
    target_keys: KeyRange | None
    """None: the chunk wrote nothing, and answers for no range."""

    @property
    def size(self) -> int:
        return self.written.size


@dataclass(frozen=True, slots=True)
class CountTask:
    """A key range of one column family of the source, whose records are counted."""

    store_partition: str
    database: str
    directory: str
    family: str
    keys: KeyRange
    size: int = 0
    """About how many bytes the task reads."""

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} {self.family} {self.keys}"


VerifyTask = CompareTask | DigestTask | CountTask | OverlayTask


def target_ranges(receipts: list[Receipt], family: int) -> list[KeyRange | None]:
    """For each receipt, in key order, its part of one family of the new store. Together they cover every key (I3).

    `family`: the family's index in each receipt's `written`.

    A chunk answers for the keys from its first one up to the next chunk's first one, so that an extra key anywhere
    belongs to one of them. A family without any record is left to the first chunk as a whole.
    """
    starts = [receipt.written[family].first_key for receipt in receipts]
    filled = [number for number, start in enumerate(starts) if start is not None]
    if not filled:
        return [KeyRange(), *[None] * (len(receipts) - 1)]
    ranges: list[KeyRange | None] = [None] * len(receipts)
    edges = [None, *(starts[number] for number in filled[1:]), None]
    for number, (start, end) in zip(filled, pairwise(edges), strict=True):
        ranges[number] = KeyRange(start=start, end=end)
    return ranges


def compare_several(task: ComparePartsTask, check: Callable[[], None] = never_stop) -> tuple[Verified, ...]:
    """Run the comparisons of several new store partitions in one pass; those that differ again, to name what does."""
    started = time.perf_counter()
    news = [each.new(str(each.target)) for each in task.parts]
    parts = [PartToCompare(each.work(), each.hooks(check), new) for each, new in zip(task.parts, news, strict=True)]
    every = compare_parts(parts[0].work, parts, check)
    checked_code(task.conversion)
    seconds = round((time.perf_counter() - started) / len(parts), 6)
    found = []
    for each, part, passed in zip(task.parts, parts, every, strict=True):
        result = _compared(each, check, part.new, passed, part.hooks.left_out.dropped)
        found.append(result.model_copy(update={"seconds": seconds}))
    return tuple(found)


def run_verify_task(task: VerifyTask, check: Callable[[], None] = never_stop) -> Verified:
    """Run one task of a verification; `check` is called with each batch, and may raise.

    Raises CorruptionError where either side cannot be read to its end.
    """
    started = time.perf_counter()
    if isinstance(task, CountTask):
        found = _count(task, check)
    elif isinstance(task, OverlayTask):
        found = compare_overlay(task, check)
    else:
        work = (type(task).__name__, task.store_partition, task.database, task.mapping.target)
        trace = Trace(task.home, work, task.keys, task.engine)
        by = _by_digest(task, check, trace) if isinstance(task, DigestTask) else _in_full(task, check, trace)
        found = by.model_copy(update={"is_after_death": trace.is_found})
        checked_code(task.conversion)
    return found.model_copy(update={"seconds": round(time.perf_counter() - started, 6)})


def _in_full(task: CompareTask, check: Callable[[], None], trace: Trace) -> Verified:
    work, hooks = task.work(), task.hooks(check, trace)
    if task.target is None:
        return Verified(records=0, counts=scan(work, check).counts)
    new = task.new(task.target)
    passed = compare(trace.engines, work, hooks, new)
    return _compared(task, check, new, passed, hooks.left_out.dropped)


def _compared(
    task: CompareTask, check: Callable[[], None], new: NewFamily, passed: Passed | None, dropped: int
) -> Verified:
    """The outcome of a comparison in columns; None: they differ."""
    if passed is None:
        found = _in_detail(task, check, new)
    else:
        ends = None if passed.first_key is None or passed.last_key is None else (passed.first_key, passed.last_key)
        records = passed.written.records
        found = Verified(records=records, ends=ends, counts=passed.counts, dropped=dropped)
    if task.keys == KeyRange():
        with open_new(new) as (target, overlay):
            ends_of = [] if found.ends is None else [found.ends]
            how = (target, task.store_partition, new.family, ends_of)
            for count, mismatch in compare_gaps(*how, left_out=new.left_out, touched=overlay):
                found = found.with_mismatch(mismatch, count)
    return found


def _in_detail(task: CompareTask, check: Callable[[], None], new: NewFamily) -> Verified:
    """Compare record by record what differs in columns."""
    work, hooks = task.work(), task.hooks(check)
    with work.open() as source, open_new(new) as opened:
        found = _differences(task, expected_and_actual(work, hooks, source, new, opened))
        if not found.mismatches:
            first = b"" if found.ends is None else found.ends[0]
            again = ("conversion", "the same twice", "another when it was done again")
            found = found.with_mismatch(_mismatch(task, first, *again))
        return found.model_copy(update={"counts": source.counts, "dropped": hooks.left_out.dropped})


def _by_digest(task: DigestTask, check: Callable[[], None], trace: Trace) -> Verified:
    """Compare digests; the source is opened only to name what differs, and where a tail has touched the range: the
    new store does not have all that the chunk's digest is of.
    """
    new, written, work = task.new(task.target), task.written, task.work()
    as_written = (written.records, written.digest)
    is_touched = _has_keys(task)
    if not is_touched:
        new = new._replace(overlay=None)
        keys, engines = task.target_keys, trace.engines
        there = RecordDigest().so_far if keys is None else digest(engines, work, task.hooks(check, trace), new, keys)
        if (there.records, there.digest) == as_written:
            return Verified(records=there.records)
    hooks = task.hooks(check)
    with work.open() as source, open_new(new) as (target, overlay):
        keys = task.target_keys
        actual = iter(()) if keys is None else batches_without(new.left_out, target, new.family, keys, overlay)
        expected = untouched(converted(work, hooks, source), overlay, new.family)
        found = _differences(task, paired(expected, _checked(actual, check)))
        of_chunk = RecordDigest(converted(work, task.hooks(check), source) if is_touched else ())
    if found.mismatches or (is_touched and (of_chunk.records, str(of_chunk)) == as_written):
        return found
    # the records agree, so the receipt is wrong
    wrong = (written.first_key or b"", "receipt", written.digest, "another digest")
    return found.with_mismatch(_mismatch(task, *wrong))


def _has_keys(task: DigestTask) -> bool:
    """Whether the overlay has a key among those for which the chunk answers."""
    family, keys = task.mapping.target, task.target_keys
    if task.overlay is None or keys is None:
        return False
    with open_pooled(task.overlay) as overlay:
        return family in overlay.families and any(key in keys for key in overlay.sample(family, keys.start, 1).keys)


def _differences(task: CompareTask | DigestTask, sides: Iterator[tuple[Batch, Batch]]) -> Verified:
    """Compare record by record: the number of mismatches of each kind, and the first of each."""
    found, records, ends = Verified(records=0), 0, None
    where, target = (task.store_partition, task.mapping.target), load_conversion(task.conversion).target
    for expected, actual in sides:
        if len(expected):
            records += len(expected)
            ends = (expected.keys[0] if ends is None else ends[0], expected.keys[-1])
        for key, one, other in by_key(expected, actual):
            if one != other:
                found = found.with_mismatch(difference(target, where, key, one, other))
        del expected, actual, one, other  # or a large value would live on while the next one is read
    return found.model_copy(update={"records": records, "ends": ends})


def _mismatch(task: CompareTask | DigestTask, key: bytes, field: str, expected: str, actual: str) -> Mismatch:
    found = differing(task.store_partition, field, expected, actual, family=task.mapping.target)
    return found.model_copy(update={"key": key})


def _checked(batches: Iterator[Batch], check: Callable[[], None]) -> Iterator[Batch]:
    for batch in batches:
        check()
        yield batch
        del batch  # or a large value would live on while the next one is read


def _count(task: CountTask, check: Callable[[], None]) -> Verified:
    with open_pooled(Path(task.directory)) as database:
        count = database.count(task.family, task.keys, check)
    counted = FamilyCount(directory=task.directory, family=task.family, seen=count, used=count)
    return Verified(records=0, counts=(counted,))
