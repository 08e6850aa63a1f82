"""The portable engine: rocksdict and columns of bytes; runs programs, reference conversions and user functions.

`RecordDigest` is equal for two ordered sets of records if and only if they are the same records. It has three streaming
XXH64 states (seed 0), in key order: the lengths (little-endian u32 key, u32 value, for each record), the keys, the
values. It is independent of batching, and the same in every engine. The lengths distinguish `ab|c` from `a|bc`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import add
from pathlib import Path
from typing import Protocol

import xxhash

from formats import Conversion, EntryError, LossError
from formats.program import ByteProgram
from migrate.engine.bail_out import BailOutError
from migrate.engine.changelog_codec import family_prefix
from migrate.engine.chunk_source import ChunkSource
from migrate.engine.columns import TIME_BYTES, CompiledProgram, compile_program, unpacked_times
from migrate.engine.engine import Digest, FamilyWork, Hooks, NewFamily, OnRecord, Passed
from migrate.engine.key_times import TimesColumn
from migrate.engine.left_out import LeftOut
from migrate.engine.rejects import RejectsByReason, loss_not_allowed
from migrate.model.comparison import FamilyCount
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch
from migrate.stores.merge import batches_without, paired, untouched
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.openings import open_pooled
from migrate.stores.rocksdb.writing import SstWriter, TableOptions


@dataclass(slots=True)
class Converter:
    """Converts batches of one column family."""

    conversion: Conversion
    program: ByteProgram | None
    rejects: RejectsByReason
    family: str
    on_record: OnRecord = None
    times: Callable[[Sequence[bytes]], Sequence[bytes]] | None = None
    """The time of each key, as eight bytes big-endian, where the conversion takes it; then `program` is a timed one.
    It is called once with the keys of each batch."""
    left_out: LeftOut = field(default_factory=LeftOut)
    _compiled: CompiledProgram | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._compiled = None if self.program is None else compile_program(self.program)

    def __call__(self, batch: Batch, times: Sequence[bytes] | None = None) -> Batch:
        """The converted records. Raises RejectedError or DroppedError where no more may be left out.

        `times`: of the keys, where a timed `program` has none to look up.
        """
        times = times if self.times is None else self.times(batch.keys)
        source = self.conversion.source
        if self._compiled is not None and not self._holds_metadata(batch) and not source.has_columns(batch.values):
            try:
                converted = self._compiled(batch if times is None else _timed(batch, times))
                if self._stay_in_partition(batch, converted):
                    return converted
            except BailOutError:
                pass  # the reference path finds the record and its reason
        return self._convert_each(batch, times)

    def _stay_in_partition(self, old: Batch, new: Batch) -> bool:
        """Whether no changed key belongs to another store partition, as far as anybody can tell."""
        if self.conversion.elsewhere is None:
            return True
        return all(found is None for found in map(self.conversion.partition_left_for, old.keys, new.keys))

    def _holds_metadata(self, batch: Batch) -> bool:
        """Whether the batch, which is in key order, has keys of the owning system's own, which no program converts."""
        places = ((prefix, bisect_left(batch.keys, prefix)) for prefix in self.conversion.source.metadata_keys)
        return any(at < len(batch) and batch.keys[at].startswith(prefix) for prefix, at in places)

    def _convert_each(self, batch: Batch, times: Sequence[bytes] | None) -> Batch:
        keys: list[bytes] = []
        values: list[bytes] = []
        convert, on_record = self.conversion.convert_counting, self.on_record
        for key, value, time_ms in zip(batch.keys, batch.values, unpacked_times(times, len(batch)), strict=True):
            if on_record is not None:
                on_record(key)
            try:
                converted, dropped = convert(key, value, time_ms)
            except LossError as error:
                raise loss_not_allowed(f"column family {self.family!r}", key, error) from error
            except EntryError as error:
                self.rejects.add(self.family, key, value, str(error), error.place)
                continue
            if dropped or converted is None:
                self.left_out.add(key, dropped, is_written=converted is not None)
            if converted is None:
                continue
            keys.append(converted[0])
            values.append(converted[1])
        return Batch(keys, values)


def _timed(batch: Batch, times: Sequence[bytes]) -> Batch:
    """The batch with its records' times before the values."""
    sizes = None if batch.sizes is None else (batch.sizes[0], batch.sizes[1] + TIME_BYTES)
    return Batch(batch.keys, list(map(add, times, batch.values)), sizes)


def make_converter(
    conversion: Conversion,
    times: Database | None,
    rejects: RejectsByReason,
    family: str,
    on_record: OnRecord = None,
    *,
    left_out: LeftOut | None = None,
) -> Converter:
    """The converter for one pass over the records of a family, which take their times from a run if there is one."""
    program = conversion.program if times is None else conversion.timed_program
    prefix = family_prefix(conversion.source.changelog_form, family)
    column = None if times is None else TimesColumn(times, conversion.default_timestamp_ms, prefix)
    return Converter(conversion, program, rejects, family, on_record, column, left_out or LeftOut())


def convert_all(batches: Iterator[Batch], convert: Converter, on_batch: Callable[[Batch], None]) -> Iterator[Batch]:
    """Converted batches, without the empty ones; `on_batch` sees each source batch first."""
    for batch in batches:
        on_batch(batch)
        converted = convert(batch)
        del batch  # else a large value would stay in memory while the next one is read
        if converted.keys:
            yield converted
        del converted


class RecordDigest:
    """A digest over batches in key order."""

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self.records = 0
        self.size = 0
        self._lengths = xxhash.xxh64()
        self._keys = xxhash.xxh64()
        self._values = xxhash.xxh64()
        for batch in batches:
            self.update(batch)

    def update(self, batch: Batch) -> None:
        self.records += len(batch)
        self.size += batch.size
        self._lengths.update(batch.lengths)
        self._keys.update(batch.joined_keys)
        self._values.update(batch.joined_values)

    def __str__(self) -> str:
        return "-".join(state.hexdigest() for state in (self._lengths, self._keys, self._values))

    @property
    def so_far(self) -> Digest:
        return Digest(self.records, self.size, str(self))


class Sink(Protocol):
    """Takes converted records: an SST file's writer, or a dry run's counter."""

    def write(self, batch: Batch) -> None:
        """Records in key order. Raises KeyOrderError where a key does not come after the one before."""


@dataclass(slots=True)
class Pumped:
    """The counts and digests of what was read and written."""

    scanned: RecordDigest = field(default_factory=RecordDigest)
    written: RecordDigest = field(default_factory=RecordDigest)
    first_key: bytes | None = None
    last_key: bytes | None = None


def pump(
    batches: Iterator[Batch],
    converter: Converter,
    sink: Sink,
    on_batch: Callable[[Batch], None],
    before: Pumped | None = None,
) -> Pumped:
    """Convert every batch into the sink; `on_batch` is called with each source batch and may raise.

    `before`: what the same sink has got already, to which these are added.
    """
    pumped = before or Pumped()

    def see(batch: Batch) -> None:
        on_batch(batch)
        pumped.scanned.update(batch)

    for batch in convert_all(batches, converter, see):
        pumped.first_key = batch.keys[0] if pumped.first_key is None else pumped.first_key
        sink.write(batch)
        pumped.written.update(batch)
        pumped.last_key = batch.keys[-1]
        del batch  # else a large value would stay in memory while the next one is read
    return pumped


class Portable:
    """Takes every work: rocksdict reads and writes, and columns of bytes are converted in Python."""

    name = "portable"

    def unavailable(self) -> str:
        return ""

    def prepare(self) -> None:
        """Python is ready."""

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        return ""

    def rewrite(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
        writer = SstWriter(file, table)
        with work.open() as source:
            batches = source.batches(work.mapping, work.keys)
            pumped = pump(batches, converter_of(work, hooks, source), writer, lambda _: hooks.check())
        writer.finish()
        return passed_of(source, pumped)

    def compare(self, work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
        pumped = Pumped()
        with work.open() as source, open_new(new) as opened:
            for expected, actual in expected_and_actual(work, hooks, source, new, opened):
                if expected.keys != actual.keys or expected.values != actual.values:
                    return None
                pumped.first_key = expected.keys[0] if pumped.first_key is None else pumped.first_key
                pumped.last_key = expected.keys[-1]
                pumped.written.records += len(expected)
                del expected, actual  # or a large value would live on while the next one is read
        return passed_of(source, pumped)

    def digest(self, new: NewFamily, keys: KeyRange, check: Callable[[], None]) -> Digest:
        digest = RecordDigest()
        with open_new(new) as (target, overlay):
            for batch in batches_without(new.left_out, target, new.family, keys, overlay):
                check()
                digest.update(batch)
        return digest.so_far


def scan(work: FamilyWork, check: Callable[[], None]) -> Passed:
    """Read the records, and convert none: they are expired."""
    pumped = Pumped()
    with work.open() as source:
        for batch in source.batches(work.mapping, work.keys):
            check()
            pumped.scanned.update(batch)
    return passed_of(source, pumped)


def converted(work: FamilyWork, hooks: Hooks, source: ChunkSource) -> Iterator[Batch]:
    """The new records of a family."""
    old = source.batches(work.mapping, work.keys)
    return convert_all(old, converter_of(work, hooks, source), lambda _: hooks.check())


def expected_and_actual(
    work: FamilyWork, hooks: Hooks, source: ChunkSource, new: NewFamily, opened: tuple[Database, Database | None]
) -> Iterator[tuple[Batch, Batch]]:
    """The records that the new store should have and those that it has, from the first to the last expected one."""
    target, overlay = opened
    expected = untouched(converted(work, hooks, source), overlay, new.family)
    for head in expected:
        rest = KeyRange(start=head.keys[0])
        actual = batches_without(new.left_out, target, new.family, rest, overlay)
        both = paired(_from(head, expected), actual, to_end=False)
        del head  # or a large value would live on while the next one is read
        yield from both


def _from(head: Batch, rest: Iterator[Batch]) -> Iterator[Batch]:
    yield head
    del head  # `itertools.chain` would keep it
    yield from rest


@contextmanager
def open_new(new: NewFamily) -> Iterator[tuple[Database, Database | None]]:
    """Open the new store, and the overlay if there is one."""
    with ExitStack() as stack:
        overlay = None if new.overlay is None else stack.enter_context(open_pooled(new.overlay))
        yield stack.enter_context(open_pooled(new.directory)), overlay


def converter_of(work: FamilyWork, hooks: Hooks, source: ChunkSource) -> Converter:
    """The converter for a pass over these records."""
    how = (hooks.rejects, work.mapping.source, hooks.on_record)
    return make_converter(work.conversion, source.known_times, *how, left_out=hooks.left_out)


def passed_of(source: ChunkSource, pumped: Pumped, counts: tuple[FamilyCount, ...] | None = None) -> Passed:
    """The outcome of a pass; `counts`: of the records read, where they are not all of the source."""
    return Passed(
        engine=Portable.name,
        scanned=pumped.scanned.so_far,
        written=pumped.written.so_far,
        first_key=pumped.first_key,
        last_key=pumped.last_key,
        shadowed=source.shadowed,
        counts=source.counts if counts is None else counts,
    )
