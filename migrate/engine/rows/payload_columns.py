"""Payloads as columns, by serde: whole columns at once, and one by one what is of another form than most."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from formats.encoding.headers import Headers, unpack_sized
from formats.errors import EntryError
from formats.serde import Serde, uses_headers
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import SIZE
from migrate.engine.rows.arrays import Mask, Numbers, distinct, invalid_rows, of_bytes, of_numpy, replaced
from migrate.engine.rows.avro_payloads import read_payloads
from migrate.engine.rows.row_types import HEADERS_TYPE, TIME, payload_type, reader_of
from migrate.engine.rows.row_values import MOST_MILLIS, TOO_FAR, arrow_serde
from migrate.engine.rows.spans import Spans

Decoded = tuple[pa.Array, dict[int, str]]
"""Values, null where one cannot be decoded; and the reasons by position."""
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
        self.is_by_columns = self._quick is not None and not isinstance(serde, AvroSerde)
        """Whether Python decodes those of another form alone; of Avro it resolves each one of another schema."""

    def __call__(self, payloads: Spans, headers: Spans | None) -> Decoded:
        """The column; `headers`: of each record, where the format carries any."""
        if self._quick is None or headers is not None:  # those name the schema of each
            return self._each(payloads, headers)
        array, wrong = self._quick(payloads, self.type)
        if not wrong.any():
            return array, {}
        rows = np.flatnonzero(wrong)
        others, reasons = self._each(payloads.some(rows), None)
        return replaced(array, rows, others), {int(rows[at]): reason for at, reason in reasons.items()}

    def _each(self, payloads: Spans, headers: Spans | None) -> Decoded:
        each = ((payload, None) for payload in payloads)
        pairs = each if headers is None else zip(payloads, (unpack_sized(one)[0] for one in headers), strict=True)
        found, reasons = tried(pairs, lambda pair: self._one(*pair))
        return pa.array(found, self.type), reasons

    def _one(self, payload: bytes, headers: Headers | None) -> object:
        serde = self._serde
        return serde.decode_with(payload, headers) if uses_headers(serde) else serde.decode(payload)


def tried(items: Iterable[Any], decode: Callable[[Any], Any]) -> tuple[list[Any], dict[int, str]]:
    """(what a function returns for each item, None where it raises EntryError; the reasons by position)."""
    found: list[Any] = []
    reasons = {}
    for number, item in enumerate(items):
        try:
            found.append(decode(item))
        except EntryError as error:
            reasons[number] = str(error)
            found.append(None)
    return found, reasons


def times(millis: Numbers, is_null: Mask) -> Decoded:
    """The column of times in milliseconds; a time that microseconds of 64 bits do not hold is a reason."""
    wrong = (millis > MOST_MILLIS) | (millis < -MOST_MILLIS)
    column = of_numpy(np.where(wrong, 0, millis) * 1000, TIME, wrong | is_null)
    return column, {int(row): f"the time {millis[row]} ms {TOO_FAR}" for row in np.flatnonzero(wrong)}


def decode_headers(spans: Spans) -> Decoded:
    """The headers that begin with their size; equal ones are decoded once."""
    every, numbers = distinct(spans.binary(pa.binary()))
    found, reasons = tried(every.to_pylist(), lambda one: [*unpack_sized(one)[0]])
    flat = [header for headers in found for header in headers or ()]
    names = of_bytes([name.encode() for name, _ in flat], pa.string())
    columns = [names, of_bytes([value for _, value in flat], pa.binary())]
    entries = pa.StructArray.from_arrays(columns, fields=list(HEADERS_TYPE.value_type))
    ends = np.cumsum([0, *(len(headers or ()) for headers in found)], dtype=np.int32)
    lists = pa.ListArray.from_arrays(of_numpy(ends, pa.int32()), entries, type=HEADERS_TYPE)
    wrong = np.isin(numbers, [*reasons])
    array = lists.take(of_numpy(numbers, is_null=wrong))
    return array, {int(row): reasons[int(numbers[row])] for row in np.flatnonzero(wrong)}


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
    column = payloads.numbers(order, kind.to_pandas_dtype())
    wrong = payloads.sizes != kind.bit_width // 8
    if kind == pa.float32():  # a signalling NaN: its bits would not be kept everywhere
        bits = column.view(np.int32)
        wrong |= np.isnan(column) & (bits & _QUIET == 0)
    return of_numpy(column, kind), wrong


def _boolean(payloads: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    byte = payloads.matrix(1).ravel()
    return of_numpy(byte == 1, kind), (payloads.sizes != 1) | (byte > 1)


def _quick(serde: Serde) -> Callable[[Spans, pa.DataType], tuple[pa.Array, Mask]] | None:
    """A function to a column and to which of its values are for the reference to decode; None: all are."""
    if isinstance(serde, AvroSerde):
        return partial(read_payloads, serde, reader_of(serde))
    if isinstance(serde, NumberSerde):
        return partial(_number, order="<" if serde.endian == "little" else ">")
    return {"bytes": _binary, "string": _string, "json": _string, "uuid": _uuid, "boolean": _boolean}.get(serde.name)
