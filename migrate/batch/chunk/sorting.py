"""What is sorted: records as they are read and converted, each with the range of new keys that it belongs to.

Records that are left out get a range too, by a hash of the old key: so the receipts of all ranges count each record
once.
"""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from formats import Conversion, EntryError, Format
from formats.partitioners import Partitioner
from migrate.engine.chunk_source import Inputs, open_inputs
from migrate.engine.left_out import LeftOut
from migrate.engine.portable import Converter, make_converter
from migrate.engine.rejects import CountRejects, FailOnReject, RecordRejectedError
from migrate.engine.split import OldPartition, Payloads, Split
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, FamilyMapping, KeyPlace, Share, elsewhere
from migrate.model.store_partition import place_name
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import checked_code, tracking_imports
from migrate.spec.partitioner import checked_partitioner
from migrate.stores.batch import Batch

Sizes = npt.NDArray[np.int64]
NOWHERE = -1


class Note(NamedTuple):
    """What is to be said of a record that is not simply written."""

    fate: Literal["written", "dropped", "not-carried", "rejected"]
    dropped: int = 0
    """How many values the function dropped."""
    reason: str = ""
    """Of a reject."""
    place: str = ""
    """In the function, of a reject."""

    def as_text(self) -> str:
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> Note:
        return cls(*json.loads(text))


class Unplaced(NamedTuple):
    """Converted records of one new column family, in any order; of those that are left out, the old key and value."""

    store: str
    """The old store; empty: there is one."""
    partition: str
    """The old store partition; empty where records of a partition may belong in any other."""
    database: str
    """The new RocksDB directory."""
    family: int
    """The number of the column family, among the directory's mappings."""
    records: Batch
    sizes: Sequence[int] | Sizes
    """Bytes of the key and value that were read, of each."""
    notes: Sequence[Note | None] | None = None
    """None: every record is written, and there is nothing to be said."""

    @property
    def left_out(self) -> list[int]:
        """Where the records are that do not get into the new store."""
        return [at for at, note in enumerate(self.notes or ()) if note is not None and note.fate != "written"]


class PlacedRecords(NamedTuple):
    """Records and the ranges that they belong to."""

    numbers: npt.NDArray[np.int64]
    """Of the ranges among all of the plan's."""
    of: Unplaced


@dataclass(frozen=True, slots=True)
class SortedStore:
    """How the records of one old store become new ones, and where those belong."""

    conversion: ConversionRef
    share: Share | None = None
    """Of any new store partition; None: records stay in their store partition."""
    partitions: tuple[str, ...] = ()
    """With a share, the new store partitions by their numbers."""

    def load(self) -> Conversion:
        """The conversion. Raises SpecError."""
        return load_conversion(self.conversion)


@dataclass(frozen=True)
class Targets:
    """The ranges of new keys: the chunks of a plan."""

    chunks: tuple[Chunk, ...]

    @cached_property
    def _places(self) -> dict[tuple[str, str], tuple[int, list[bytes]]]:
        """By store partition and RocksDB directory: the number of the first range, and where the others start."""
        found: dict[tuple[str, str], tuple[int, list[bytes]]] = {}
        for number, chunk in enumerate(self.chunks):
            _, bounds = found.setdefault((chunk.store_partition, chunk.database), (number, []))
            if chunk.keys.start is not None:
                bounds.append(chunk.keys.start)
        return found

    def in_place(self, partition: str, database: str, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """The ranges of keys that belong in one RocksDB directory."""
        first, bounds = self._places[partition, database]
        if not bounds:
            return np.full(len(keys), first)
        return np.fromiter(map(partial(bisect_right, bounds), keys), np.int64, len(keys)) + first

    def anywhere(self, partitions: Sequence[str], database: str, key: bytes) -> int:
        """The range that counts a record which is left out; the same one each time."""
        hashed = zlib.crc32(key)
        first, bounds = self._places[partitions[hashed % len(partitions)], database]
        return first + hashed // len(partitions) % (len(bounds) + 1)


@dataclass(frozen=True)
class SortWork:
    """How everything that is sorted is converted and placed. Pickles."""

    stores: dict[str, SortedStore]
    targets: Targets
    partitioner: ConversionRef | None = None
    """The user's partitioner; None: a known one."""
    fails_on_reject: bool = True
    max_dropped: int | None = None
    key_places: tuple[KeyPlace, ...] = ()
    """Of old store partitions whose records stay there: where a new key must belong."""

    def conversion_of(self, store: str, partition: str) -> Conversion:
        """The conversion of an old store's records in one old store partition. Raises SpecError."""
        place = next((each for each in self.key_places if each.store_partition == partition), None)
        return replace(self.stores[store].load(), elsewhere=elsewhere(place))

    def unlimited(self) -> SortWork:
        """The same, where any number of records may be left out."""
        return replace(self, fails_on_reject=False, max_dropped=None)

    def function_of(self, share: Share) -> Partitioner | None:
        return checked_partitioner(share.partitioner, self.partitioner)

    def place(self, found: Unplaced, payloads: Payloads) -> PlacedRecords:
        """The ranges that records belong to. `payloads`: of the new format."""
        store, records = self.stores[found.store], found.records
        partitions = store.partitions if found.partition == "" else (found.partition,)
        if len(partitions) == 1 or store.share is None:
            numbers = self.targets.in_place(partitions[0], found.database, records.keys)
        else:
            share = store.share
            (new,) = payloads.partitions(share.partitioner, records, (share.new,), self.function_of(share))
            numbers = np.full(len(records), NOWHERE)
            for number in np.unique(new).tolist():
                mine = np.flatnonzero(new == number)
                keys = [records.keys[at] for at in mine.tolist()]
                numbers[mine] = self.targets.in_place(partitions[number], found.database, keys)
        for at in found.left_out:
            numbers[at] = self.targets.anywhere(partitions, found.database, records.keys[at])
        return PlacedRecords(numbers, found)


class SortInput(ABC):
    """Something that is read, converted and sorted: again for each wave, and to verify. Pickles."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that it reads, about."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The old store partition, or the store, by which its records are counted."""

    @abstractmethod
    def placed(self, work: SortWork, check: Callable[[], None]) -> Iterator[PlacedRecords]:
        """Its records. `check` is called with each batch, and may raise.

        Raises RecordRejectedError or DroppedError where no record may be left out.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRange(SortInput):
    """A key range of one RocksDB directory of an old store partition."""

    store: str
    """The old store; empty: there is one."""
    partition: OldPartition
    database: str
    directory: str
    mappings: tuple[FamilyMapping, ...]
    keys: KeyRange
    estimated_bytes: int = 0

    def __str__(self) -> str:
        return f"{place_name(self.partition.id, self.database)} {self.keys}"

    @property
    def size(self) -> int:
        return self.estimated_bytes

    @property
    def source(self) -> str:
        return self.partition.id

    def placed(self, work: SortWork, check: Callable[[], None]) -> Iterator[PlacedRecords]:
        """Raises RefusedError, too, for an old key that is not where the partitioner puts it."""
        inputs = Inputs(directories=(self.directory,))
        store = work.stores[self.store]
        with tracking_imports(store.conversion):
            with open_inputs(inputs, store.load().source) as source:
                for number, mapping in enumerate(self.mappings):
                    yield from self.converted(work, number, source.batches(mapping, self.keys), check)
            checked_code(store.conversion)

    def converted(
        self, work: SortWork, family: int, batches: Iterator[Batch], check: Callable[[], None]
    ) -> Iterator[PlacedRecords]:
        """As `placed`, of these old records of one column family."""
        store = work.stores[self.store]
        conversion, share = work.conversion_of(self.store, self.partition.id), store.share
        split = None if share is None else Split(share, conversion.source, work.function_of(share))
        convert = _Noting(work, conversion, str(self), self.mappings[family].source)
        partition = self.partition.id if share is None else ""
        payloads = Payloads(conversion.target)
        for batch in batches:
            check()
            if split is not None:
                split.check(batch, self.partition)
            try:
                records, notes = convert(batch)
            except RecordRejectedError as error:
                key = error.reason.examples[0].key.text.encode()
                partitions = store.partitions if share is not None else (self.partition.id,)
                error.chunk = work.targets.chunks[work.targets.anywhere(partitions, self.database, key)]
                raise
            found = Unplaced(self.store, partition, self.database, family, records, sizes_of(batch), notes)
            del batch, records  # or a large value would live on while the next one is read
            yield work.place(found, payloads)


def sizes_of(batch: Batch) -> Sizes:
    """Bytes of the key and value of each record."""
    if batch.sizes is not None:
        return np.full(len(batch), sum(batch.sizes))
    lengths: Sizes = np.frombuffer(batch.lengths, "<u4").reshape(-1, 2).astype(np.int64)
    return lengths[:, 0] + lengths[:, 1]


class _Noting:
    """Converts batches without leaving a record out: of one that has no counterpart, a note says why."""

    def __init__(self, work: SortWork, conversion: Conversion, where: str, family: str) -> None:
        has_function = conversion.function is not None
        policy = FailOnReject if work.fails_on_reject else CountRejects
        self._rejects: CountRejects = policy(where, has_function=has_function)
        self._left_out = LeftOut(where, work.max_dropped)
        self._convert: Converter = make_converter(conversion, None, self._rejects, family, left_out=self._left_out)

    def __call__(self, batch: Batch) -> tuple[Batch, list[Note | None] | None]:
        before = self._dropped_and_rejected
        new = self._convert(batch)
        if len(new) == len(batch) and self._dropped_and_rejected == before:
            return new, None
        return self._one_by_one(batch)

    @property
    def _dropped_and_rejected(self) -> tuple[int, int]:
        return self._left_out.dropped, self._rejects.count

    def _one_by_one(self, batch: Batch) -> tuple[Batch, list[Note | None]]:
        keys, values, notes = list[bytes](), list[bytes](), list[Note | None]()
        for key, value in zip(batch.keys, batch.values, strict=True):
            each = _OneRecord()
            convert = replace(self._convert, rejects=each, left_out=each.left_out)
            new = convert(Batch([key], [value]))
            note = each.note(is_written=len(new) == 1)
            keys.append(new.keys[0] if len(new) else key)
            values.append(new.values[0] if len(new) else value if note and note.fate == "rejected" else b"")
            notes.append(note)
        return Batch(keys, values), notes


class _OneRecord(CountRejects):
    """What becomes of one record."""

    def __init__(self) -> None:
        super().__init__("")
        self.left_out = LeftOut()
        self._rejected: Note | None = None

    def add(self, family: str, key: bytes, value: bytes, reason: str, place: str = "") -> None:
        self._rejected = Note("rejected", 0, reason, place)

    def note(self, *, is_written: bool) -> Note | None:
        dropped = self.left_out.dropped
        if self._rejected is not None:
            return self._rejected
        if is_written:
            return Note("written", dropped) if dropped else None
        return Note("dropped", dropped) if dropped else Note("not-carried")


def age(known: Format, key: bytes, value: bytes) -> tuple[int, bytes]:
    """What orders records of one key, the newest last: the time, -1 where there is none, then the value."""
    try:
        time_ms = known.decode(key, value).timestamp_ms
    except EntryError:
        time_ms = None
    return -1 if time_ms is None else time_ms, value
