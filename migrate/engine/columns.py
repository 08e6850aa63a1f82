"""Byte programs over batches of records: as rows of a matrix where all have one size, else as generated Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from formats.program import (
    IDENTITY,
    SIZE_BYTES,
    ByteProgram,
    Copy,
    Insert,
    InsertSize,
    Operation,
    Reverse,
    Skip,
    SkipSize,
    SpanOperation,
)
from migrate.engine.generated import compile_column
from migrate.engine.matrix import RowPlan, plan_rows
from migrate.stores.batch import Batch, Buffer

TIME_BYTES = 8
MIN_ROWS = 16
"""Fewer records are converted one by one: a matrix costs some microseconds, and copies a large value once more."""


@lru_cache(maxsize=64)
def compile_program(program: ByteProgram) -> CompiledProgram:
    """The compiled program. Callers with many batches hold on to it: this look-up costs as much as a small batch."""
    return CompiledProgram(program)


def pack_times(times: Sequence[int]) -> tuple[bytes, ...]:
    """Milliseconds as signed 64-bit big-endian numbers."""
    return struct.unpack("8s" * len(times), struct.pack(f">{len(times)}q", *times))


def read_times(packed: Buffer) -> tuple[int, ...]:
    """The milliseconds of `pack_times`, joined."""
    return struct.unpack(f">{memoryview(packed).nbytes // TIME_BYTES}q", packed)


def unpacked_times(times: Sequence[bytes] | None, records: int) -> Sequence[int | None]:
    """The times of so many records in milliseconds; None for each where there are none."""
    return [None] * records if times is None else read_times(b"".join(times))


class CompiledProgram:
    """Converts batches. Raises BailOutError, and has converted nothing then."""

    def __init__(self, program: ByteProgram) -> None:
        self._key = None if program.key == IDENTITY else CompiledColumn(program.key)
        self._value = None if program.value == IDENTITY else CompiledColumn(program.value)
        self._growth = _growth(program.key), _growth(program.value)

    def __call__(self, batch: Batch) -> Batch:
        if batch.sizes is None or len(batch) < MIN_ROWS:
            return self._convert_each(batch)
        key_size, value_size = batch.sizes
        key = None if self._key is None else self._key.plan(batch.joined_keys, len(batch), key_size)
        value = None if self._value is None else self._value.plan(batch.joined_values, len(batch), value_size)
        if (self._key is not None and key is None) or (self._value is not None and value is None):
            return self._convert_each(batch)
        return _convert_rows(batch, key, value)

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
            joined_keys=batch.joined_keys if keys is batch.keys else None,
            joined_values=batch.joined_values if values is batch.values else None,
            lengths=lengths,
        )


def _convert_rows(batch: Batch, key: RowPlan | None, value: RowPlan | None) -> Batch:
    keys, joined_keys = batch.keys, batch.joined_keys
    values, joined_values = batch.values, batch.joined_values
    assert batch.sizes is not None
    key_size, value_size = batch.sizes
    if key is not None and not key.changes_nothing:
        (keys, joined_keys), key_size = key.run(joined_keys, len(batch)), key.new_size
    if value is not None and not value.changes_nothing:
        (values, joined_values), value_size = value.run(joined_values, len(batch)), value.new_size
    return Batch(keys, values, (key_size, value_size), joined_keys=joined_keys, joined_values=joined_values)


class CompiledColumn:
    """The operations on one column, compiled for rows and for single records."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._operations = operations
        self._plan: RowPlan | None = None
        self.convert = compile_column(operations)

    def of_values(self, batch: Batch) -> tuple[list[bytes], Buffer | None]:
        """The converted values of a batch, and the same joined where they are. Raises BailOutError."""
        if self._operations == IDENTITY:
            return batch.values, None
        if batch.sizes is not None and len(batch) >= MIN_ROWS:
            plan = self.plan(batch.joined_values, len(batch), batch.sizes[1])
            if plan is not None:
                return plan.run(batch.joined_values, len(batch))
        return self.convert(batch.values), None

    def plan(self, joined: Buffer, count: int, size: int) -> RowPlan | None:
        """The plan for `count` records of this size; None: they are not alike enough. Raises BailOutError.

        The last plan is tried first, since most batches of a store are alike.
        """
        plan = self._plan
        if plan is None or not plan.fits(joined, size, count):
            plan = plan_rows(self._operations, joined, size)
            if plan is None or not plan.fits(joined, size, count):
                return None
            self._plan = plan
        return plan


def _growth(operations: tuple[Operation, ...]) -> int | None:
    """The number of bytes by which a record grows; None where that varies."""
    growth = 0
    for operation in operations:
        match operation:
            case Copy() | Reverse() | SpanOperation(does="copy"):
                pass
            case Insert(data=data):
                growth += len(data)
            case InsertSize():
                growth += SIZE_BYTES
            case Skip(size=int(size)):
                growth -= size
            case SkipSize():
                growth -= SIZE_BYTES
            case _:
                return None
    return growth
