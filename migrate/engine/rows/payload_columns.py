"""Payloads as columns, by serde: whole columns at once, and one by one what is of another form than most."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats.encoding.headers import Headers, unpack_sized
from formats.errors import EntryError
from formats.serde import Serde, uses_headers
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import SIZE
from migrate.engine.rows.row_types import HEADERS_TYPE, TIME, payload_type
from migrate.engine.rows.row_values import MOST_MILLIS, TOO_FAR, arrow_serde
from migrate.engine.rows.spans import Mask, Numbers, Spans

Decoded = tuple[pa.Array, dict[int, str]]
"""Values, null where one cannot be decoded; and the reasons by position."""
Rows = npt.NDArray[np.intp]
_HYPHENS = [8, 13, 18, 23]
_QUIET = 1 << 22
"""The bit that tells a NaN of 32 bits from a signalling one."""
_IS_HEX = np.isin(np.arange(256), [*b"0123456789abcdef"])


class PayloadColumn:
    """Decodes columns of payloads of one serde."""

    def __init__(self, serde: Serde) -> None:
        """Raises SpecError for a serde whose payloads no column holds."""
        self.type = payload_type(serde)
        self._serde = arrow_serde(serde)
        self._quick = _quick(serde)

    def __call__(self, payloads: Spans, headers: Spans | None) -> Decoded:
        """The column; `headers`: of each record, where the format carries any."""
        if self._quick is None:
            return self._each(payloads, headers)
        array, wrong = self._quick(payloads, self.type)
        if not wrong.any():
            return array, {}
        rows = np.flatnonzero(wrong)
        others, reasons = self._each(payloads.some(rows), None if headers is None else headers.some(rows))
        return replaced(array, rows, others), {int(rows[at]): reason for at, reason in reasons.items()}

    def _each(self, payloads: Spans, headers: Spans | None) -> Decoded:
        each = ((payload, None) for payload in payloads)
        pairs = each if headers is None else zip(payloads, (unpack_sized(one)[0] for one in headers), strict=True)
        return decode_each(pairs, lambda pair: self._one(*pair), self.type)

    def _one(self, payload: bytes, headers: Headers | None) -> object:
        serde = self._serde
        return serde.decode_with(payload, headers) if uses_headers(serde) else serde.decode(payload)


def decode_each(items: Iterable[Any], decode: Callable[[Any], object], kind: pa.DataType) -> Decoded:
    """The column of what a function returns for each item; EntryErrors are reasons."""
    found: list[object] = []
    reasons = {}
    for number, item in enumerate(items):
        try:
            found.append(decode(item))
        except EntryError as error:
            reasons[number] = str(error)
            found.append(None)
    return pa.array(found, kind), reasons


def times(millis: Numbers, is_null: Mask) -> Decoded:
    """The column of times in milliseconds; a time that microseconds of 64 bits do not hold is a reason."""
    wrong = (millis > MOST_MILLIS) | (millis < -MOST_MILLIS)
    column = pa.array(np.where(wrong, 0, millis) * 1000, pa.int64(), mask=wrong | is_null).view(TIME)
    return column, {int(row): f"the time {millis[row]} ms {TOO_FAR}" for row in np.flatnonzero(wrong)}


def decode_headers(spans: Spans) -> Decoded:
    """The headers that begin with their size; equal ones are decoded once."""
    encoded = spans.binary(pa.binary()).dictionary_encode()
    array, reasons = decode_each(encoded.dictionary.to_pylist(), _header_list, HEADERS_TYPE)
    numbers = encoded.indices.to_numpy()
    wrong = np.flatnonzero(np.isin(numbers, [*reasons]))
    return array.take(encoded.indices), {int(row): reasons[int(numbers[row])] for row in wrong}


def _header_list(data: bytes) -> list[dict[str, object]]:
    return [{"key": name, "value": value} for name, value in unpack_sized(data)[0]]


def replaced(array: pa.Array, rows: Rows, others: pa.Array) -> pa.Array:
    """The array with other values in these rows, null ones among them."""
    places = np.arange(len(array))
    places[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, others]).take(pa.array(places))


def spread(array: pa.Array, rows: Rows, count: int) -> pa.Array:
    """An array of `count` values, null except in these rows."""
    if len(rows) == count:
        return array
    places, is_null = np.zeros(count, np.int64), np.ones(count, np.bool_)
    places[rows], is_null[rows] = np.arange(len(rows)), False
    return array.take(pa.array(places, mask=is_null))


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


def _binary(payloads: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    return payloads.binary(kind), np.zeros(len(payloads), np.bool_)


def _string(payloads: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    array = payloads.binary(kind)
    return array, invalid_rows(array)


def _uuid(payloads: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    digits = payloads.matrix(SIZE)
    fits = _IS_HEX[digits]
    fits[:, _HYPHENS] = digits[:, _HYPHENS] == ord("-")
    return payloads.binary(kind), ~fits.all(axis=1) | (payloads.sizes != SIZE)


def _number(payloads: Spans, kind: pa.DataType, *, order: str) -> tuple[pa.Array, Mask]:
    size = kind.bit_width // 8
    dtype = np.dtype(kind.to_pandas_dtype())
    column = payloads.matrix(size).view(dtype.newbyteorder(order)).ravel().astype(dtype)
    wrong = payloads.sizes != size
    if kind == pa.float32():  # a signalling NaN: its bits would not be kept everywhere
        bits = column.view(np.int32)
        wrong |= np.isnan(column) & (bits & _QUIET == 0)
    return pa.array(column, kind), wrong


def _boolean(payloads: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    byte = payloads.matrix(1).ravel()
    return pa.array(byte == 1, kind), (payloads.sizes != 1) | (byte > 1)


def _quick(serde: Serde) -> Callable[[Spans, pa.DataType], tuple[pa.Array, Mask]] | None:
    """A function to a column and to which of its values are for the reference to decode; None: all are."""
    if isinstance(serde, NumberSerde):
        return partial(_number, order="<" if serde.endian == "little" else ">")
    return {"bytes": _binary, "string": _string, "json": _string, "uuid": _uuid, "boolean": _boolean}.get(serde.name)
