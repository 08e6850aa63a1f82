"""Arrays of Arrow, made of buffers, put together, and checked.

`pyarrow.array` makes them too, and imports pandas for it where that is installed: 50 MiB in each worker, and a third of
a second. It is used for records that are decoded one by one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


def of_numpy(values: npt.NDArray[Any], kind: pa.DataType | None = None, is_null: Mask | None = None) -> pa.Array:
    """The array of a type as wide as numpy's; by default of whole numbers."""
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    validity = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(kind or pa.int64(), len(values), [validity, pa.py_buffer(data)])


def of_bytes(pieces: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """The array of `binary` or `string`; text is not checked."""
    offsets = np.cumsum([0, *(len(each or b"") for each in pieces)], dtype=np.int32)
    is_there = np.array([each is not None for each in pieces], np.bool_)
    validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(filter(None, pieces)))]
    return pa.Array.from_buffers(kind, len(pieces), buffers)


@lru_cache(maxsize=16)
def repeated(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    """The same text, or number of 32 bits, so many times: as many for all batches of a range but its last one."""
    if isinstance(value, str):
        return of_bytes([value.encode()], kind).take(of_numpy(np.zeros(count, np.int64)))
    return of_numpy(np.full(count, value or 0, np.int32), kind, np.full(count, value is None))


def distinct(array: pa.Array) -> tuple[pa.Array, Rows]:
    """(each value once, which of them each value is)."""
    encoded = array.dictionary_encode()
    numbers = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(array))
    return encoded.dictionary, numbers.astype(np.intp)


def replaced(array: pa.Array, rows: Rows, others: pa.Array) -> pa.Array:
    """The array with other values in these rows, null ones among them."""
    places = np.arange(len(array))
    places[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, others]).take(of_numpy(places))


def spread(array: pa.Array, rows: Rows, count: int) -> pa.Array:
    """An array of `count` values, null except in these rows."""
    if len(rows) == count:
        return array
    places, is_null = np.zeros(count, np.int64), np.ones(count, np.bool_)
    places[rows], is_null[rows] = np.arange(len(rows)), False
    return array.take(of_numpy(places, is_null=is_null))


def invalid_rows(array: pa.Array) -> Mask:
    """Which values Arrow's own checks refuse: text that is not UTF-8, a decimal with too many digits."""
    wrong = np.zeros(len(array), np.bool_)
    left = [(0, len(array))]
    while left:
        start, end = left.pop()
        try:
            array[start:end].validate(full=True)
        except pa.ArrowInvalid:
            wrong[start] = end == start + 1
            middle = (start + end) // 2
            left += [] if wrong[start] else [(start, middle), (middle, end)]
    return wrong
