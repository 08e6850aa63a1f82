"""Passes of the compiled loop over the records of a family, and what Python does where the loop stops.

It stops where a record does not fit its program, where a buffer is full, where the sides of a comparison differ, where
RocksDB fails, and many times a second, so that the caller can interrupt it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from formats.program import Operation
from migrate.engine.bail_out import BailOutError
from migrate.engine.engine import Digest, FamilyWork, Hooks, NewFamily, Passed
from migrate.engine.native import words as loop
from migrate.engine.native.byte_code import TooLargeError, byte_code
from migrate.engine.native.compiled import compiled
from migrate.engine.native.digests import STATE_SIZE, hexdigest, new_states
from migrate.engine.portable import Portable, make_converter, scan
from migrate.errors import CorruptionError
from migrate.model.comparison import FamilyCount
from migrate.model.key_range import KeyRange, subtract
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.c_api import (
    NativeIterator,
    NativeSstWriter,
    StatusError,
    give_memory_back,
    library,
    open_native_pooled,
)
from migrate.stores.rocksdb.scan import damaged
from migrate.stores.rocksdb.writing import KeyOrderError, TableOptions, cannot_write

STACK_WORDS = 1 << 14
MOST_RECORDS, MOST_BYTES = 1 << 14, 16 << 20
"""Of one call of the loop: some milliseconds."""
LARGE_BYTES = 1 << 20
"""Of a value: the C library would keep the memory of many such."""
FIRST_ROOM = 1 << 16
MOST_ROOM = 1 << 32
"""Of a converted record, in bytes; RocksDB takes none that is longer."""
_ROOMS = {
    loop.KEY_FULL: (loop.KEY_ROOM, loop.KEY_ROOM_SIZE),
    loop.VALUE_FULL: (loop.VALUE_ROOM, loop.VALUE_ROOM_SIZE),
    loop.LAST_FULL: (loop.LAST_KEY, loop.LAST_KEY_ROOM),
}
_WRITTEN = (loop.WRITTEN_SIZES, loop.WRITTEN_KEYS, loop.WRITTEN_VALUES)
FUNCTIONS = {
    loop.VALID: "iter_valid",
    loop.NEXT: "iter_next",
    loop.KEY: "iter_key",
    loop.VALUE: "iter_value",
    loop.PUT: "sstfilewriter_put",
}


class Block:
    """The words that the loop reads and writes, and the memory that they refer to."""

    def __init__(self) -> None:
        self._words = np.zeros(loop.WORDS, np.int64)
        self._held: dict[int, object] = {}

    @property
    def address(self) -> int:
        return int(self._words.ctypes.data)

    def __getitem__(self, word: int) -> int:
        return int(self._words[word])

    def __setitem__(self, word: int, number: int) -> None:
        self._words[word] = number

    def refer(self, word: int, memory: npt.NDArray[np.generic] | bytes) -> None:
        """Let a word be the address of memory, which stays until the word refers to something else."""
        array = np.frombuffer(memory or bytes(1), np.uint8) if isinstance(memory, bytes) else memory
        self[word] = array.ctypes.data
        self._held[word] = array

    def bytes_at(self, word: int, size_word: int) -> bytes:
        return ctypes.string_at(self[word], self[size_word])


class Run:
    """The loop on the records of one iterator after another."""

    source: NativeIterator

    def __init__(self, check: Callable[[], None]) -> None:
        self.block = Block()
        self.first_key: bytes | None = None
        """The first new key."""
        self._check = check
        self._loop = compiled()
        self.block[loop.MOST_RECORDS], self.block[loop.MOST_BYTES] = MOST_RECORDS, MOST_BYTES
        for word in _ROOMS:
            self._make_room(word, FIRST_ROOM)
        self.on: dict[int, Callable[[], bool]] = {
            loop.PAUSED: lambda: True,
            loop.BEGINS: self._begin,
            **{outcome: partial(self._grow, outcome) for outcome in _ROOMS},
        }
        """What to do where the loop stops, by the reason; it tells whether to go on."""

    def through(self, source: NativeIterator) -> bool:
        """Go through its records. Returns whether it came to the end, or to an error."""
        block = self.block
        self.source, block[loop.SOURCE] = source, source.pointer
        for word, name in FUNCTIONS.items():
            block[word] = library().address(name)
        while (outcome := self._loop(block.address)) != loop.ENDED:
            self._check()
            if not self.on[outcome]():
                return False
            if self.block[loop.VALUE_SIZE] >= LARGE_BYTES:
                give_memory_back()
        return True

    def begin(self) -> None:
        """Called once the first new key is known, before its record is compared or written."""

    @property
    def last_key(self) -> bytes | None:
        """The last new key."""
        return self.block.bytes_at(loop.LAST_KEY, loop.LAST_KEY_SIZE) if self.block[loop.DONE] else None

    def _begin(self) -> bool:
        self.first_key = self.block.bytes_at(loop.NEW_KEY, loop.NEW_KEY_SIZE)
        self.begin()
        self.block[loop.HAS_BEGUN] = 1
        return True

    def _grow(self, outcome: int) -> bool:
        size = 2 * self.block[_ROOMS[outcome][1]]
        if size > MOST_ROOM:
            return self.on[loop.JUDGE]()
        self._make_room(outcome, size)
        return True

    def _make_room(self, outcome: int, size: int) -> None:
        word, size_word = _ROOMS[outcome]
        room = np.empty(size, np.uint8)
        if last := word == loop.LAST_KEY and self.last_key:
            room[: len(last)] = np.frombuffer(last, np.uint8)
        self.block.refer(word, room)
        self.block[size_word] = size


class Converting(Run):
    """The loop on old records, which it converts by a program; what that does not take is judged in Python."""

    def __init__(self, work: FamilyWork, hooks: Hooks) -> None:
        """Raises BailOutError where the program is too large."""
        super().__init__(hooks.check)
        self.on[loop.JUDGE] = self._judge
        self._work = work
        conversion, block = work.conversion, self.block
        self._judged = make_converter(conversion, None, hooks.rejects, work.mapping.source, left_out=hooks.left_out)
        self._digests: npt.NDArray[np.uint64] | None = None
        stack = np.zeros(STACK_WORDS, np.int64)
        block.refer(loop.STACK, stack)
        block[loop.STACK_TOP] = block[loop.STACK] + stack.nbytes
        if (program := conversion.program) is not None:
            self._refer_to_program(loop.KEY_PROGRAM, program.key)
            self._refer_to_program(loop.VALUE_PROGRAM, program.value)
        if prefixes := conversion.source.metadata_keys:
            self._prefixes = [np.frombuffer(prefix, np.uint8) for prefix in prefixes]
            words = [(each.ctypes.data, len(each)) for each in self._prefixes]
            block.refer(loop.SET_ASIDE, np.array([len(words), *chain.from_iterable(words)], np.int64))

    def _refer_to_program(self, word: int, operations: tuple[Operation, ...]) -> None:
        try:
            code = byte_code(operations)
        except TooLargeError as error:
            raise BailOutError from error
        if code is not None:
            self.block.refer(word, code)

    def digest(self) -> None:
        """Digest both sides. A column that the program keeps is digested once, as long as every record is converted."""
        self._digests = states = new_states(6)
        self.block.refer(loop.SCANNED, states)
        changes_key, changes_value = (self.block[word] for word in (loop.KEY_PROGRAM, loop.VALUE_PROGRAM))
        for word, changes in zip(_WRITTEN, (changes_key or changes_value, changes_key, changes_value), strict=True):
            if changes:
                self._digest_apart(word)

    def _digest_apart(self, word: int) -> None:
        if self._digests is not None and not self.block[word]:
            column = _WRITTEN.index(word)
            self._digests[3 + column] = self._digests[column]
            self.block[word] = self._digests.ctypes.data + (3 + column) * STATE_SIZE

    def digests(self) -> tuple[Digest, Digest]:
        """Of the old records and of the new ones."""
        assert self._digests is not None
        old, block = [hexdigest(state) for state in self._digests[:3]], self.block
        new = [hexdigest(self._digests[3 + at]) if block[word] else old[at] for at, word in enumerate(_WRITTEN)]
        return (
            Digest(block[loop.READ], block[loop.READ_SIZE], "-".join(old)),
            Digest(block[loop.DONE], block[loop.DONE_SIZE], "-".join(new)),
        )

    def _judge(self) -> bool:
        """Let the portable engine convert the record, or count it as a reject."""
        for word in _WRITTEN:
            self._digest_apart(word)
        converted = self._judged(Batch([self.source.key()], [self.source.value()]))
        block = self.block
        block[loop.TURN] = loop.TAKE if len(converted) else loop.LEAVE_OUT
        for key, value in zip(converted.keys, converted.values, strict=True):
            block.refer(loop.NEW_KEY, key)
            block.refer(loop.NEW_VALUE, value)
            block[loop.NEW_KEY_SIZE], block[loop.NEW_VALUE_SIZE] = len(key), len(value)
        return True


class Rewriting(Converting):
    """Writes the new records into an SST file, which is made with the first one."""

    def __init__(self, work: FamilyWork, hooks: Hooks, open_writer: Callable[[], NativeSstWriter]) -> None:
        super().__init__(work, hooks)
        self.on[loop.FAILED] = self._fail
        self.digest()
        self._open_writer = open_writer
        self.writer: NativeSstWriter | None = None

    def begin(self) -> None:
        self.writer = self._open_writer()
        self.block[loop.WRITER] = self.writer.pointer

    def _fail(self) -> bool:
        error = library().take_error(self.block[loop.ERROR])
        key, last = self.block.bytes_at(loop.NEW_KEY, loop.NEW_KEY_SIZE), self.last_key
        if last is not None and key <= last:
            raise KeyOrderError(last, key)
        raise StatusError(error)


def rewrite(work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
    """As an engine's `rewrite`."""
    with ExitStack() as opened:
        run = Rewriting(work, hooks, lambda: opened.enter_context(NativeSstWriter(file, table)))
        try:
            _convert(work, hooks, run)
            if run.writer is not None:
                run.writer.finish()
        except StatusError as error:
            raise cannot_write(file, error) from error
    return _passed(work, run, *run.digests())


class Comparing(Converting):
    """Compares the new records with those of a target, from the first one on."""

    def __init__(self, work: FamilyWork, hooks: Hooks, left_out: Sequence[bytes], target: NativeIterator) -> None:
        super().__init__(work, hooks)
        self.on[loop.DIFFERS] = self._differ
        self._left_out, self._target = set(left_out), target
        """Keys that the target has not shown yet, of those that do not count."""

    def begin(self) -> None:
        self._target.seek(self.first_key)
        self.block[loop.TARGET] = self._target.pointer

    def _differ(self) -> bool:
        """Whether the target is at a key that does not count."""
        if not self._target.valid() or (key := self._target.key()) not in self._left_out:
            return False
        self._left_out.remove(key)
        self._target.next()
        return True

    def has_counted(self) -> bool:
        """Whether a key of the target that does not count was taken for that of a new record."""
        first, last = self.first_key, self.last_key
        if first is None or last is None:
            return False
        return any(first <= key <= last and self._has(key) for key in self._left_out)

    def _has(self, key: bytes) -> bool:
        self._target.seek(key)
        return self._target.valid() and self._target.key() == key


def compare(work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
    """As an engine's `compare`. Raises BailOutError for what only the portable engine does."""
    with _new_records(new, KeyRange()) as target:
        run = Comparing(work, hooks, new.left_out, target)
        is_equal = _convert(work, hooks, run) and not run.has_counted()
        if error := target.error():
            Portable().digest(new, KeyRange(start=run.first_key), hooks.check)
            raise _damaged(str(new.directory), new.family, error)
    return _passed(work, run, Digest(), Digest(records=run.block[loop.DONE])) if is_equal else None


def digest(new: NewFamily, keys: KeyRange, check: Callable[[], None]) -> Digest:
    """As an engine's `digest`. Raises BailOutError for what only the portable engine does."""
    run, states = Run(check), new_states(3)
    run.block.refer(loop.SCANNED, states)
    for part in subtract(keys, [KeyRange(start=key, end=key + b"\0") for key in new.left_out]):
        with _new_records(new, part) as records:
            run.through(records)
            if error := records.error():
                Portable().digest(new, keys, check)
                raise _damaged(str(new.directory), new.family, error)
    return Digest(run.block[loop.READ], run.block[loop.READ_SIZE], "-".join(map(hexdigest, states)))


@contextmanager
def _new_records(new: NewFamily, keys: KeyRange) -> Iterator[NativeIterator]:
    with open_native_pooled(new.directory) as database:
        if new.overlay is not None or new.family not in database.families:
            raise BailOutError
        with database.iterator(new.family, keys) as records:
            yield records


def _convert(work: FamilyWork, hooks: Hooks, run: Converting) -> bool:
    """Run over the old records. Returns whether it came to their end; raises what the portable engine raises (I4)."""
    (directory,) = work.inputs.directories
    family = work.mapping.source
    with open_native_pooled(Path(directory)) as database:
        if family not in database.families:
            return True
        with database.iterator(family, work.keys) as source:
            is_whole = run.through(source)
            error = source.error() if is_whole else None
    if error:
        scan(work, hooks.check)
        raise _damaged(directory, family, error)
    return is_whole


def _damaged(directory: str, family: str, error: str) -> CorruptionError:
    """For what the portable engine could read a moment later."""
    return damaged(f"column family {family!r} of {directory}", None, error)


def _passed(work: FamilyWork, run: Converting, scanned: Digest, written: Digest) -> Passed:
    read = run.block[loop.READ]
    count = FamilyCount(directory=work.inputs.directories[0], family=work.mapping.source, seen=read, used=read)
    return Passed("native", scanned, written, run.first_key, run.last_key, 0, (count,) if read else ())
