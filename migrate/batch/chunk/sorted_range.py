"""Writing one range of new keys, whose records come sorted: an SST file for each column family, and the receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from migrate.batch.chunk.rewrite_chunk import ChunkAttempt, RewriteTask, check_home, discarding
from migrate.batch.chunk.sorting import Note, SortInput, SortWork, age
from migrate.engine.engine import Digest, Passed
from migrate.engine.portable import RecordDigest
from migrate.engine.sums import RangeSum, sum_of
from migrate.errors import ChunkFailedError, RefusedError
from migrate.model.display import plural
from migrate.model.key_range import show_key
from migrate.model.plan import Chunk
from migrate.model.receipt import Receipt
from migrate.stores.batch import Batch, joined
from migrate.stores.rocksdb.writing import SstWriter, TableOptions

ENGINE = "sorting"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortTask:
    """A wave: ranges of new keys that are sorted together. Everything that may have records of them is read."""

    work: SortWork
    inputs: tuple[SortInput, ...]
    ranges: tuple[RewriteTask, ...]
    """What each range's receipt and files say; their `source` is not read."""
    newest_wins: bool = False
    """Of records with one new key, the newest stays; False: they are an error."""

    def __str__(self) -> str:
        return f"{plural(len(self.ranges), 'range')} of new keys, {self.ranges[0].chunk} and on"

    @property
    def size(self) -> int:
        return sum(each.size for each in self.ranges)

    @property
    def numbers(self) -> list[int]:
        """The number of each range among all of the plan's."""
        place = {each: number for number, each in enumerate(map(_place_of, self.work.targets.chunks))}
        return [place[_place_of(each.chunk)] for each in self.ranges]


def _place_of(chunk: Chunk) -> tuple[str, str, int]:
    return chunk.store_partition, chunk.database, chunk.number


class CollisionError(RefusedError):
    """Two records have one new key."""

    def __init__(self, chunk: Chunk, family: int, key: bytes) -> None:
        super().__init__(
            f"{chunk}: two records get the new key {show_key(key)}",
            hint='let the conversion keep them apart; or, if one of them may go, [conversion] on_collision = "newest" '
            "keeps the newest one: by its timestamp, then by its value; the same command goes on then",
        )
        self.chunk, self.family, self.key = chunk, family, key

    def __reduce__(self) -> tuple[type[CollisionError], tuple[Chunk, int, bytes]]:
        return CollisionError, (self.chunk, self.family, self.key)


class SortedRows(NamedTuple):
    """Rows of one range, sorted by column family, then by key."""

    records: Batch
    notes: Sequence[str | None] | None
    """None: there are none."""
    families: Sequence[int]
    sizes: Sequence[int]


def write_range(
    task: RewriteTask, rows: Iterator[SortedRows], check: Callable[[], None], *, newest_wins: bool = False
) -> Receipt:
    """Write the files of a range, and its receipt.

    Raises CollisionError, and RejectedError or DroppedError where more records than allowed are left out; the files
    are removed then.
    """
    check_home(task)
    attempt = ChunkAttempt(task, check)
    with discarding(task, [attempt]):
        writers = [_FamilyWriter(attempt, number, newest_wins=newest_wins) for number in range(len(task.mappings))]
        for batch in rows:
            check()
            for family, part in _by_family(batch):
                writers[family].add(part)
            del batch  # or large values would live on while the next ones are read
        passed = [each.finish() for each in writers]
        lost = RangeSum()
        for each in writers:
            lost = lost.plus(each.lost)
        collided = {
            "is_sorted": True,
            "collided": lost.records,
            "collided_sum": f"{lost.sum:032x}" if lost.records else "",
        }
        return attempt.receipt(passed, collided)


def _by_family(rows: SortedRows) -> Iterator[tuple[int, SortedRows]]:
    if rows.families[0] == rows.families[-1]:
        yield rows.families[0], rows
        return
    families = list(rows.families)
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(families), 1) if one != other), len(families)]
    for start, end in pairwise(starts):
        some = slice(start, end)
        notes = None if rows.notes is None else rows.notes[some]
        yield families[start], SortedRows(rows.records.part(start, end), notes, families[some], rows.sizes[some])


@dataclass(slots=True)
class _FamilyWriter:
    """The records of one column family of a range."""

    attempt: ChunkAttempt
    family: int
    newest_wins: bool
    lost: RangeSum = field(default_factory=RangeSum)
    """Of records that another one with their key is newer than."""
    _sst: SstWriter | None = None
    _digest: RecordDigest = field(default_factory=RecordDigest)
    _read: tuple[int, int] = (0, 0)
    """Records, and bytes of their old keys and values."""
    _ends: list[bytes] = field(default_factory=list)
    """The first key and the last one that are written."""
    _waiting: Batch = field(default_factory=lambda: Batch([], []))
    """The last records so far, which wait for others of their last key."""

    def add(self, rows: SortedRows) -> None:
        """Write those that waited; rows wait for the next ones."""
        self._read = self._read[0] + len(rows.records), self._read[1] + sum(rows.sizes)
        records = rows.records if rows.notes is None else self._noted(rows, rows.notes)
        if not len(records):
            return
        goes_on = self._waiting.keys[-1:] == records.keys[:1]
        if goes_on or any(map(bytes.__eq__, records.keys, records.keys[1:])):
            records = self._without_collisions(joined([self._waiting, records]))
        else:
            self._write(self._waiting)
        self._waiting = records

    def _noted(self, rows: SortedRows, notes: Sequence[str | None]) -> Batch:
        """The rows that are written; the others are counted."""
        keys, values = list[bytes](), list[bytes]()
        name = self.attempt.task.mappings[self.family].source
        for key, value, text in zip(rows.records.keys, rows.records.values, notes, strict=True):
            note = None if text is None else Note.of_text(text)
            if note is not None and note.fate == "rejected":
                self.attempt.rejects.add(name, key, value, note.reason, note.place)
                continue
            is_written = note is None or note.fate == "written"
            if note is not None:
                self.attempt.left_out.add(key, note.dropped, is_written=is_written)
            if is_written:
                keys.append(key)
                values.append(value)
        return Batch(keys, values)

    def _without_collisions(self, records: Batch) -> Batch:
        """Of each key the newest record. Raises CollisionError where they are an error."""
        if not self.newest_wins:
            key = next(one for one, other in pairwise(records.keys) if one == other)
            raise CollisionError(self.attempt.task.chunk, self.family, key)
        target, newest = self.attempt.conversion.target, dict[bytes, bytes]()
        lost: list[tuple[bytes, bytes]] = []
        for key, value in zip(records.keys, records.values, strict=True):
            before = newest.get(key)
            if before is None:
                newest[key] = value
                continue
            older, newest[key] = sorted((before, value), key=partial(age, target, key))
            lost.append((key, older))
        self.lost = self.lost.plus(sum_of([key for key, _ in lost], [value for _, value in lost], self.family))
        return Batch([*newest], [*newest.values()])

    def _write(self, batch: Batch) -> None:
        if not len(batch):
            return
        if self._sst is None:
            mapping = self.attempt.task.mappings[self.family]
            self._sst = SstWriter(self.attempt.file(mapping), TableOptions(compression=mapping.compression))
        self._sst.write(batch)
        self._digest.update(batch)
        self._ends = [(self._ends or batch.keys)[0], batch.keys[-1]]

    def finish(self) -> Passed:
        """Complete the file, which is durable then."""
        self._write(self._waiting)
        if self._sst is not None:
            self._sst.finish()
        first, last = (self._ends[0], self._ends[-1]) if self._ends else (None, None)
        return Passed(ENGINE, Digest(*self._read), self._digest.so_far, first, last, shadowed=0, counts=())


def refuse_to_sort(task: SortTask, _: Callable[[], None]) -> Receipt:
    """Raises RefusedError: only Spark runs such a task."""
    raise RefusedError(
        f"{task}: the new keys have to be sorted, which Spark does",
        hint="run it on Spark: stateferry run SPEC --master 'local[*]', or spark-submit jobs/migrate_job.py",
    )


def written_by(receipts: Iterable[Receipt], task: SortTask) -> list[Receipt]:
    """Of each range of a wave one receipt. Raises ChunkFailedError for a range without any."""
    found = {(each.store_partition, each.database, each.number): each for each in receipts}
    for each in task.ranges:
        if _place_of(each.chunk) not in found:
            raise ChunkFailedError(
                f"{each}: Spark has written it, and its receipt is not in {each.home}",
                hint="is the work_dir one directory, mounted here and on every worker? then run the command again",
            )
    return [found[_place_of(each.chunk)] for each in task.ranges]
