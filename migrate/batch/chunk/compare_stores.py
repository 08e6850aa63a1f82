"""Comparing the new store on disk with what the old one converts to, or with the receipts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from migrate.batch.stop import never_stop
from migrate.engine.chunk_source import Inputs, Records, open_inputs
from migrate.engine.key_times import make_converter
from migrate.engine.left_out import LeftOut
from migrate.engine.portable import RecordDigest, convert_all
from migrate.engine.rejects import CountRejects
from migrate.kafka.latest import unpacked
from migrate.model.comparison import FamilyCount, Mismatch, Verified, difference, differing
from migrate.model.key_range import KeyRange, show_key
from migrate.model.plan import FamilyMapping, KeyPlace, elsewhere
from migrate.model.receipt import Receipt, Written
from migrate.model.store_partition import place_name
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import checked_code
from migrate.stores.batch import Batch
from migrate.stores.merge import RecordReader, batches_without, side_by_side, untouched
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
    overlay: str | None = field(default=None, kw_only=True)
    """The tails' changes of the RocksDB directory: their keys are left out, and compared by a task of their own."""

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} {self.mapping.target} {self.keys}"


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
        """About how many bytes the task reads."""
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
        found = _by_digest(task, check) if isinstance(task, DigestTask) else _in_full(task, check)
        checked_code(task.conversion)
    return found.model_copy(update={"seconds": round(time.perf_counter() - started, 6)})


def _in_full(task: CompareTask, check: Callable[[], None]) -> Verified:
    conversion = load_conversion(task.conversion)
    with ExitStack() as stack:
        source = stack.enter_context(open_inputs(task.source, conversion.source))
        if task.target is None:
            for _ in source.batches(task.mapping, task.keys):
                check()
            return Verified(records=0, counts=_counts_of(source))
        target = stack.enter_context(open_pooled(Path(task.target)))
        touched = stack.enter_context(_overlay_of(task))
        found = _FullComparison(task, source, target, check, touched=touched).run()
        if task.keys == KeyRange():
            ends = [] if found.ends is None else [found.ends]
            where, left_out = (task.store_partition, task.mapping.target), conversion.position_keys
            for count, mismatch in compare_gaps(target, *where, ends, left_out=left_out, touched=touched):
                found = found.with_mismatch(mismatch, count)
        return found


@contextmanager
def _overlay_of(task: CompareTask | DigestTask) -> Iterator[Database | None]:
    if task.overlay is None:
        yield None
    else:
        with open_pooled(Path(task.overlay)) as overlay:
            yield overlay


def _by_digest(task: DigestTask, check: Callable[[], None]) -> Verified:
    """Compare digests; the source is opened only to name what differs, and where a tail has touched the range: the
    new store does not have all that the chunk's digest is of.
    """
    with open_pooled(Path(task.target)) as target, _overlay_of(task) as overlay:
        touched = overlay if _has_keys(overlay, task) else None
        digest = RecordDigest()
        for batch in _actual(task, target, check) if touched is None else ():
            digest.update(batch)
        if (digest.records, str(digest)) == (task.written.records, task.written.digest):
            return Verified(records=digest.records)
        with open_inputs(task.source, load_conversion(task.conversion).source) as source:
            comparison = _Comparison(task, source, target, check, touched=touched)
            found = comparison.differences(_actual(task, target, check, touched), to_end=True)
            for batch in comparison.of_chunk() if touched is not None else ():
                digest.update(batch)
    is_as_written = (digest.records, str(digest)) == (task.written.records, task.written.digest)
    if found.mismatches or (touched is not None and is_as_written):
        return found
    # the records agree, so the receipt is wrong
    wrong = comparison.mismatch(task.written.first_key or b"", "receipt", task.written.digest, "another digest")
    return found.with_mismatch(wrong)


def _has_keys(overlay: Database | None, task: DigestTask) -> bool:
    """Whether the overlay has a key among those for which the chunk answers."""
    family, keys = task.mapping.target, task.target_keys
    if overlay is None or family not in overlay.families or keys is None:
        return False
    return any(key in keys for key in overlay.sample(family, keys.start, 1).keys)


def _actual(
    task: DigestTask, target: Database, check: Callable[[], None], touched: Database | None = None
) -> Iterator[Batch]:
    keys = task.target_keys
    if keys is None:
        return iter(())
    left_out = load_conversion(task.conversion).position_keys  # the driver compares them
    return _checked(batches_without(left_out, target, task.mapping.target, keys, touched), check)


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


def _counts_of(source: Records) -> tuple[FamilyCount, ...]:
    return tuple(
        FamilyCount(
            directory=source.inputs.directories[number], family=family, seen=seen, used=source.read[number, family]
        )
        for (number, family), seen in source.seen.items()
    )


class _Comparison:
    def __init__(
        self,
        task: CompareTask | DigestTask,
        source: Records,
        target: Database,
        check: Callable[[], None],
        *,
        touched: Database | None,
    ) -> None:
        self._touched = touched
        self._task = task
        self._check = check
        self._source = source
        self._target = target
        self._conversion = replace(load_conversion(task.conversion), elsewhere=elsewhere(task.key_place))
        self._left_out = LeftOut()
        """What the last pass over the old records has left out."""

    def expected(self) -> Iterator[Batch]:
        """The old store's records of the range, converted again, but for those that a tail has touched."""
        return untouched(self.of_chunk(), self._touched, self._task.mapping.target)

    def of_chunk(self) -> Iterator[Batch]:
        """The old store's records of the range, converted again."""
        task = self._task
        rejects, self._left_out = CountRejects(str(task)), LeftOut()
        how = (rejects, task.mapping.source)
        convert = make_converter(self._conversion, self._source.known_times, *how, left_out=self._left_out)
        old = _checked(self._source.batches(task.mapping, task.keys), self._check)
        return convert_all(old, convert, lambda _: None)

    def actual(self, keys: KeyRange) -> Iterator[Batch]:
        """The new store's records of a range."""
        left_out = self._conversion.position_keys
        return batches_without(left_out, self._target, self._task.mapping.target, keys, self._touched)

    def differences(self, actual: Iterator[Batch], *, to_end: bool) -> Verified:
        """Compare record by record: the number of mismatches of each kind, and the first of each.

        `to_end`: actual records after the last expected one are extra.
        """
        found = Verified(records=0)
        keys: list[bytes] = []
        records = 0
        for key, expected, got in side_by_side(self.expected(), actual, to_end=to_end):
            if expected is not None:
                records += 1
                keys[1:] = [key]
            if expected != got:
                where = (self._task.store_partition, self._task.mapping.target)
                found = found.with_mismatch(difference(self._conversion.target, where, key, expected, got))
        return found.model_copy(update={"records": records, "ends": (keys[0], keys[-1]) if keys else None})

    def mismatch(self, key: bytes, field: str, expected: str, actual: str) -> Mismatch:
        """A mismatch of this family."""
        found = differing(self._task.store_partition, field, expected, actual, family=self._task.mapping.target)
        return found.model_copy(update={"key": key})


class _FullComparison(_Comparison):
    """Compares all old records of a range with the new store from the range's first to its last new key."""

    def run(self) -> Verified:
        """Compare column by column; record by record where the columns differ."""
        found = self._by_columns()
        if found is None:
            found = self._in_detail()
        return found.model_copy(update={"counts": _counts_of(self._source), "dropped": self._left_out.dropped})

    def _by_columns(self) -> Verified | None:
        records = 0
        first = last = b""
        actual = RecordReader(iter(()))
        for batch in self.expected():
            if not records:
                first = batch.keys[0]
                actual = RecordReader(self.actual(KeyRange(start=first)))
            keys, values = actual.take(len(batch))
            if keys != batch.keys or values != batch.values:
                return None
            records += len(batch)
            last = batch.keys[-1]
            del batch, keys, values  # or a large value would live on while the next one is read
        return Verified(records=records, ends=(first, last) if records else None)

    def _in_detail(self) -> Verified:
        first = next(self.expected()).keys[0]
        self._source.read.clear()
        self._source.seen.clear()
        found = self.differences(self.actual(KeyRange(start=first)), to_end=False)
        if found.mismatches:
            return found
        mismatch = self.mismatch(first, "conversion", "the same twice", "another when it was done again")
        return found.with_mismatch(mismatch)
