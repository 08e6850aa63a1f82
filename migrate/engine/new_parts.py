"""Several new store partitions at once: the old ones that they are made from are read in one pass.

Only the portable engine does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from migrate.engine.chunk_source import ChunkSource
from migrate.engine.engine import FamilyWork, Hooks, NewFamily, Passed
from migrate.engine.portable import Converter, Pumped, converter_of, open_new, passed_of, pump
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch, joined
from migrate.stores.merge import batches_without
from migrate.stores.rocksdb.writing import SstWriter, TableOptions

_RECORDS, _BYTES = 256, 1 << 20
"""As much of one new store partition waits to be converted together: each conversion has a fixed cost. With more, what
waits of all of them does not fit a processor's cache.
"""


class _Unconverted:
    """Records of one new store partition that are not converted yet."""

    def __init__(self, work: FamilyWork, hooks: Hooks) -> None:
        """`work`: with the share of this one."""
        assert work.inputs.share is not None
        self.number = work.inputs.share.number
        self.work, self.hooks = work, hooks
        self.pumped = Pumped()
        self._batches: list[Batch] = []
        self._room = (_RECORDS, _BYTES)

    def add(self, batch: Batch, source: ChunkSource) -> None:
        """Take records, and convert those that wait once they are many."""
        self._batches.append(batch)
        records, size = self._room
        size -= sum(map(len, batch.values)) if batch.sizes is None else len(batch) * batch.sizes[1]
        self._room = records - len(batch), size
        if min(self._room) <= 0:
            self.flush(source)

    def flush(self, source: ChunkSource) -> None:
        """Convert what waits."""
        batches, self._batches, self._room = self._batches, [], (_RECORDS, _BYTES)
        if batches:
            self.convert(joined(batches), source)

    def convert(self, batch: Batch, source: ChunkSource) -> None:
        raise NotImplementedError


class NewPart(_Unconverted):
    """A new store partition's file, which a pass over old ones makes."""

    def __init__(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> None:
        super().__init__(work, hooks)
        self._writer = SstWriter(file, table)
        self._converter: Converter | None = None

    def convert(self, batch: Batch, source: ChunkSource) -> None:
        """Convert and write. Raises as `Engine.rewrite` does."""
        self._converter = self._converter or converter_of(self.work, self.hooks, source)
        pump(iter([batch]), self._converter, self._writer, lambda _: self.hooks.check(), self.pumped)

    def finish(self, source: ChunkSource) -> Passed:
        """Complete the file, which is durable then."""
        self.flush(source)
        self._writer.finish()
        return passed_of(source, self.pumped)


class PartToCompare(_Unconverted):
    """A new store partition, which a pass over old ones compares with what they convert to."""

    def __init__(self, work: FamilyWork, hooks: Hooks, new: NewFamily) -> None:
        super().__init__(work, hooks)
        self.new = new
        self.is_equal = True
        self._converter: Converter | None = None
        self._actual: Iterator[Batch] | None = None
        self._rest: Batch | None = None
        self._stack = ExitStack()

    def convert(self, batch: Batch, source: ChunkSource) -> None:
        """Convert, and compare with as many records of the new store; after a difference nothing is any more."""
        if not self.is_equal:
            return
        self._converter = self._converter or converter_of(self.work, self.hooks, source)
        expected = self._converter(batch)
        if not len(expected):
            return
        actual = self._next(len(expected), expected.keys[0])
        self.is_equal = actual.keys == expected.keys and actual.values == expected.values
        pumped = self.pumped
        pumped.first_key = expected.keys[0] if pumped.first_key is None else pumped.first_key
        pumped.last_key = expected.keys[-1]
        pumped.written.records += len(expected)

    def finish(self, source: ChunkSource) -> Passed | None:
        """As `Engine.compare`."""
        self.flush(source)
        self._stack.close()
        return (
            passed_of(source, self.pumped, source.counts_of(self.number, self.work.mapping)) if self.is_equal else None
        )

    def close(self) -> None:
        self._stack.close()

    def _next(self, count: int, first: bytes) -> Batch:
        """The next records of the new store, the first time from the key `first` on; fewer where it ends."""
        if self._actual is None:
            target, _ = self._stack.enter_context(open_new(self.new))
            self._actual = batches_without(self.new.left_out, target, self.new.family, KeyRange(start=first))
        found, left = list[Batch](), count
        while left and (batch := self._rest or next(self._actual, None)) is not None:
            taken = min(left, len(batch))
            found.append(batch.part(0, taken))
            self._rest = batch.part(taken, len(batch)) if taken < len(batch) else None
            left -= taken
        return joined(found) if found else Batch([], [])


def rewrite_parts(work: FamilyWork, parts: Sequence[NewPart], check: Callable[[], None]) -> list[Passed]:
    """Convert the records of old store partitions into a file for each of the new ones, in one pass.

    Raises RefusedError for a key that is not in the old store partition where the partitioner puts it.
    """
    with work.open() as source:
        _read(work, source, parts, check)
        return [part.finish(source) for part in parts]


def compare_parts(work: FamilyWork, parts: Sequence[PartToCompare], check: Callable[[], None]) -> list[Passed | None]:
    """Convert the records of old store partitions, and compare them with the new ones, in one pass; None: they differ.

    Raises as `rewrite_parts` does.
    """
    with ExitStack() as stack:
        for part in parts:
            stack.callback(part.close)
        source = stack.enter_context(work.open())
        _read(work, source, parts, check)
        return [part.finish(source) for part in parts]


def _read(work: FamilyWork, source: ChunkSource, parts: Sequence[_Unconverted], check: Callable[[], None]) -> None:
    by_number = {part.number: part for part in parts}
    for pieces in source.parts(work.mapping, work.keys, [*by_number]):
        check()
        for number, batch in pieces:
            by_number[number].add(batch, source)
