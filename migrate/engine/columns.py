"""Byte programs over whole columns.

Where all records have one size they are a matrix, and every operation of a program moves some of its columns; elsewhere
a list comprehension converts them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from formats.errors import EntryError
from formats.program import IDENTITY, ByteProgram, Copy, Insert, Operation, Skip, fixed_size, run_operations
from migrate.stores.batch import Batch, Buffer

Column = Callable[[list[bytes]], list[bytes]]
Pairs = Callable[[list[tuple[bytes, bytes]]], list[tuple[bytes, bytes]]]
MIN_ROWS = 16
"""Fewer records are converted one by one: a matrix costs some microseconds, and copies a large value once more."""


class TooShortError(Exception):
    """A record is shorter than the program's fixed part; the reference path says which, and why that matters."""


def run_program(program: ByteProgram, batch: Batch) -> Batch:
    """Convert a batch. Raises TooShortError; nothing is converted then."""
    return compile_program(program)(batch)


@lru_cache(maxsize=64)
def compile_program(program: ByteProgram) -> CompiledProgram:
    """What runs the program; to be kept where many batches come, since finding it here costs as much as a small one."""
    return CompiledProgram(program)


class CompiledProgram:
    """Converts batches. Raises TooShortError; nothing is converted then."""

    def __init__(self, program: ByteProgram) -> None:
        self._key = None if program.key == IDENTITY else _CompiledColumn(program.key)
        self._value = None if program.value == IDENTITY else _CompiledColumn(program.value)
        self._is_even = _is_simple(program.key) and _is_simple(program.value)
        self._growth = _growth(program.key), _growth(program.value)

    def __call__(self, batch: Batch) -> Batch:
        """The batch, converted."""
        if batch.sizes is None or len(batch) < MIN_ROWS or not self._is_even:
            return self._convert_each(batch)
        keys, joined_keys = batch.keys, batch.joined_keys
        values, joined_values = batch.values, batch.joined_values
        key_size, value_size = batch.sizes
        if self._key is not None:
            keys, joined_keys, key_size = self._key.convert_even(joined_keys, len(batch), key_size)
        if self._value is not None:
            values, joined_values, value_size = self._value.convert_even(joined_values, len(batch), value_size)
        sizes = key_size, value_size
        return Batch(keys, values, sizes, joined_keys=joined_keys, joined_values=joined_values)

    def _convert_each(self, batch: Batch) -> Batch:
        keys = batch.keys if self._key is None else self._key.convert(batch.keys)
        values = batch.values if self._value is None else self._value.convert(batch.values)
        lengths = None
        if None not in self._growth:
            before = np.frombuffer(batch.lengths, dtype="<i4").reshape(-1, 2)
            lengths = (before + np.array(self._growth, dtype="<i4")).tobytes()
        return Batch(
            keys,
            values,
            joined_keys=batch.joined_keys if self._key is None else None,
            joined_values=batch.joined_values if self._value is None else None,
            lengths=lengths,
        )


class _CompiledColumn:
    """The operations on one column."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._operations = operations
        self._needed = fixed_size(operations)
        self._run = compile_column(operations)

    def convert(self, column: list[bytes]) -> list[bytes]:
        """Records of any size."""
        if self._needed and min(map(len, column)) < self._needed:
            raise TooShortError
        return self._run(column)

    def convert_even(self, joined: Buffer, count: int, size: int) -> tuple[list[bytes], Buffer, int]:
        """(the converted column, the same joined, the size of each) of `count` records of one size.

        A record is a row. 40 ns each, where a comprehension and joining its results take 70.
        """
        if size < self._needed:
            raise TooShortError
        new_size = _converted_size(self._operations, size)
        out = np.empty(count * new_size, np.uint8)
        at = to = 0
        for operation in self._operations:
            if isinstance(operation, Insert):
                taken = len(operation.data)
                _field(out, to, taken, count, new_size)[...] = np.void(operation.data)
                to += taken
                continue
            taken = size - at if operation.size is None else operation.size
            if isinstance(operation, Copy) and taken:
                _field(out, to, taken, count, new_size)[...] = _field(joined, at, taken, count, size)
                to += taken
            at += taken
        flat = out.data
        return list(_cutter(new_size, count).unpack(flat)), flat, new_size


def _field(buffer: Buffer | npt.NDArray[np.uint8], at: int, size: int, count: int, row: int) -> npt.NDArray[np.void]:
    """`size` bytes from `at` on in each row; as one item, which numpy moves twice as fast as single bytes."""
    return np.ndarray((count,), f"V{size}", buffer, at, (row,))


@lru_cache(maxsize=16)
def _cutter(size: int, count: int) -> struct.Struct:
    """Cuts a buffer into `count` pieces, for 18 ns each; slices take 50."""
    return struct.Struct(f"{size}s" * count)


def _converted_size(operations: tuple[Operation, ...], size: int) -> int:
    """The bytes that a record of `size` bytes becomes."""
    left, new_size = size, 0
    for operation in operations:
        if isinstance(operation, Insert):
            new_size += len(operation.data)
            continue
        taken = left if operation.size is None else operation.size
        left -= taken
        new_size += 0 if isinstance(operation, Skip) else taken
    return new_size


def _is_simple(operations: tuple[Operation, ...]) -> bool:
    """Whether each operation takes a fixed number of bytes, but the last one that takes any, which takes the rest."""
    reading = [operation for operation in operations if not isinstance(operation, Insert)]
    return all(isinstance(operation, Copy | Skip) and operation.size is not None for operation in reading[:-1]) and (
        reading[-1:] == [Copy()]
    )


def _growth(operations: tuple[Operation, ...]) -> int | None:
    """By how many bytes a record grows; None where that varies."""
    if not _is_simple(operations):
        return None
    needed = fixed_size(operations)
    return _converted_size(operations, needed) - needed


@lru_cache(maxsize=64)
def compile_column(operations: tuple[Operation, ...]) -> Column:
    """`[insert ff, skip 8, copy the rest]` becomes `[c0 + v[8:] for v in column]`; c0 is bound, data is never code."""
    if not _is_simple(operations):
        return lambda column: [_run(operations, v) for v in column]
    convert: Column = _compile(operations, "[{} for v in column]")
    return convert


def _run(operations: tuple[Operation, ...], data: bytes) -> bytes:
    try:
        return run_operations(operations, data)
    except EntryError as error:
        raise TooShortError from error


@lru_cache(maxsize=64)
def compile_pairs(operations: tuple[Operation, ...]) -> Pairs:
    """The same for the values of (key, value) pairs."""
    if not _is_simple(operations):
        return lambda column: [(k, _run(operations, v)) for k, v in column]
    convert: Pairs = _compile(operations, "[(k, {}) for k, v in column]")
    return convert


def _compile(operations: tuple[Operation, ...], loop: str) -> Callable[..., Any]:
    terms: list[str] = []
    constants: dict[str, bytes] = {}
    at = 0
    for operation in operations:
        if isinstance(operation, Insert):
            name = f"c{len(constants)}"
            constants[name] = operation.data
            terms.append(name)
            continue
        end = "" if operation.size is None else str(at + operation.size)
        if not isinstance(operation, Skip):
            terms.append("v" if (at, end) == (0, "") else f"v[{at}:{end}]")
        at += operation.size or 0
    expression = " + ".join(terms) or "b''"
    source = f"lambda {', '.join(constants)}: lambda column: {loop.format(expression)}"
    bind: Callable[..., Callable[..., Any]] = eval(source)
    return bind(**constants)
