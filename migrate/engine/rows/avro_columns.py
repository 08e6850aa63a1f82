"""Avro values as columns: all values of a batch are read in step, one part of the schema after the other.

Where a value is damaged, or of an unusual form (an array in several blocks, far more items than others have), its
record is marked, and the one-by-one reader decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formats.avro.binary import PACK
from formats.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Types, Union
from migrate.engine.rows.arrays import Bytes, Mask, Numbers, Rows, distinct, invalid_rows, of_bytes, of_numpy, spread
from migrate.engine.rows.row_types import avro_type, union_members, wider_type
from migrate.engine.rows.row_values import MOST_MILLIS
from migrate.engine.rows.spans import Spans, read_varints, read_words

_DECIMAL_BYTES = 16
_FEW, _SHORT = 16, 64
"""Items are read in step, the first of each array, then the second ...: as many as this number of arrays have, or so
many at least; the records of longer arrays are marked."""


def read_columns(types: Types, values: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """(the column of values of these types' root, which of them are marked); `kind`: its `avro_type`."""
    marked = np.zeros(len(values), np.bool_)
    step = _Step(types, values, marked, np.arange(len(values)), values.starts)
    array = step.read(types.root, kind)
    return array, marked | (step.at != values.ends)


@dataclass(slots=True)
class _Step:
    """Values that are read at the same time: of some records each its next one."""

    types: Types
    whole: Spans
    """The records."""
    marked: Mask
    """Of all records; what is read of a marked one is any value."""
    records: Rows
    """Whose values they are, ascending."""
    at: Numbers
    """Where each one is read next."""

    def read(self, of: Type, kind: pa.DataType) -> pa.Array:
        known = self.types.definition(of)
        array: pa.Array = _READ[type(known)](self, known, kind)
        return array

    def mark(self, which: Mask | Rows) -> None:
        self.marked[self.records[which]] = True

    def part(self, rows: Rows, read: Callable[[_Step], Any]) -> Any:  # noqa: ANN401 - what it returns
        """Read the next values of some of the records."""
        step = _Step(self.types, self.whole, self.marked, self.records[rows], self.at[rows])
        found = read(step)
        self.at[rows] = step.at
        return found

    def number(self, kind: str = "long") -> Numbers:
        number, self.at, wrong = read_varints(self.whole.data, self.at)
        self.mark(wrong | (number != number.astype(np.int32)) if kind == "int" else wrong)
        return number

    def index(self, limit: int) -> Numbers:
        """The number of a branch or a symbol."""
        number = self.number()
        wrong = (number < 0) | (number >= limit)
        self.mark(wrong)
        return np.where(wrong, 0, number)

    def byte(self) -> Bytes:
        found = self.whole.data.take(self.at, mode="clip")
        self.at = self.at + 1
        return found

    def spans(self, sizes: Numbers | int) -> Spans:
        """The next bytes of these sizes; none of a marked record."""
        self.mark((sizes < 0) | (sizes > self.whole.ends[self.records] - self.at))
        start, end = self.at, self.at + sizes
        if (marked := self.marked[self.records]).any():
            start = np.where(marked, self.whole.starts[self.records], start)
            end = np.where(marked, start, end)
        self.at = end
        return Spans(self.whole.data, start, end)

    def primitive(self, known: Primitive, kind: pa.DataType) -> pa.Array:
        if known.kind == "null":
            return pa.nulls(len(self.at))
        if known.kind == "boolean":
            byte = self.byte()
            self.mark(byte > 1)
            return of_numpy(byte == 1, kind)
        if known.kind in PACK:
            words = read_words(self.whole.data, self.at)
            self.at = self.at + PACK[known.kind].size
            return of_numpy(words if known.kind == "double" else words.astype("<u4"), kind)
        if known.kind in ("int", "long"):
            return self._whole_number(known, kind)
        spans = self.spans(self.number())
        return self._decimal(spans, kind) if pa.types.is_decimal(kind) else self._text(spans, kind)

    def _whole_number(self, known: Primitive, kind: pa.DataType) -> pa.Array:
        number = self.number(known.kind)
        if known.logical is not None and known.logical.name.endswith("-millis") and pa.types.is_timestamp(kind):
            wrong = (number > MOST_MILLIS) | (number < -MOST_MILLIS)
            self.mark(wrong)
            number = np.where(wrong, 0, number) * 1000
        return of_numpy(number.astype(np.int32) if known.kind == "int" else number, kind)

    def _text(self, spans: Spans, kind: pa.DataType) -> pa.Array:
        array = spans.binary(kind)
        if kind == pa.string():
            self.mark(invalid_rows(array))
        return array

    def _decimal(self, spans: Spans, kind: pa.DataType) -> pa.Array:
        sizes = spans.sizes
        wrong = (sizes < 1) | (sizes > _DECIMAL_BYTES)
        places = np.arange(_DECIMAL_BYTES)
        digits = spans.data.take(spans.ends[:, None] - 1 - places, mode="clip")
        sign = np.where(spans.data.take(spans.starts, mode="clip") > 127, 255, 0).astype(np.uint8)
        digits = np.where(places < sizes[:, None], digits, sign[:, None])
        digits[wrong] = 0
        array = pa.Array.from_buffers(kind, len(spans), [None, pa.py_buffer(np.ascontiguousarray(digits))])
        self.mark(wrong | invalid_rows(array))
        return array

    def fixed(self, known: Fixed, kind: pa.DataType) -> pa.Array:
        spans = self.spans(known.size)
        return self._decimal(spans, kind) if pa.types.is_decimal(kind) else spans.binary(kind)

    def enum(self, known: Enum, kind: pa.DataType) -> pa.Array:
        return of_bytes([each.encode() for each in known.symbols], kind).take(of_numpy(self.index(len(known.symbols))))

    def record(self, known: Record, kind: pa.DataType) -> pa.Array:
        if not known.fields:
            return pa.array([{}] * len(self.at), kind)
        columns = [self.read(field.type, kind.field(number).type) for number, field in enumerate(known.fields)]
        return pa.StructArray.from_arrays(columns, fields=list(kind))

    def union(self, known: Union, kind: pa.DataType) -> pa.Array:
        number, members = self.index(len(known.branches)), union_members(known)
        count = len(number)
        is_wider = wider_type(known) is not None
        columns = []
        for place, member in enumerate(members):
            rows = np.flatnonzero(number == member)
            of = Primitive(str(known.branches[member])) if is_wider else known.branches[member]
            own = kind.field(place).type if len(members) > 1 and not is_wider else avro_type(self.types, of)
            columns.append(self._branch(rows, of, own, count))
        if len(members) < 2:
            return columns[0] if columns else pa.nulls(count)
        if is_wider:
            return pc.coalesce(*(column.cast(kind) for column in columns))
        is_null = of_numpy(~np.isin(number, members), pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=is_null)

    def _branch(self, rows: Rows, of: Type, kind: pa.DataType, count: int) -> pa.Array:
        """The values of one branch among `count`."""
        if not len(rows):
            return pa.nulls(count, kind)
        return spread(self.part(rows, lambda step: step.read(of, kind)), rows, count)

    def array(self, known: Array, kind: pa.DataType) -> pa.Array:
        offsets, _, (items,) = self._items([kind.value_type], lambda step: (step.read(known.items, kind.value_type),))
        return pa.ListArray.from_arrays(offsets, items, type=kind)

    def map(self, known: Map, kind: pa.DataType) -> pa.Array:
        text = Primitive("string")

        def entry(step: _Step) -> tuple[pa.Array, pa.Array]:
            return step.read(text, kind.key_type), step.read(known.values, kind.item_type)

        offsets, owners, (keys, items) = self._items([kind.key_type, kind.item_type], entry)
        names, numbers = distinct(keys)
        entries = owners * len(names) + numbers
        is_double = np.ones(len(entries), np.bool_)
        is_double[np.unique(entries, return_index=True)[1]] = False
        self.mark(owners[is_double])
        return pa.MapArray.from_arrays(offsets, keys, items)

    def _items(
        self, kinds: list[pa.DataType], read: Callable[[_Step], tuple[pa.Array, ...]]
    ) -> tuple[pa.Array, Rows, list[pa.Array]]:
        """(where each array begins, whose each item is, the columns of the items); `read`: the next item of each."""
        count = self._count()
        found: list[tuple[pa.Array, ...]] = [tuple(pa.nulls(0, kind) for kind in kinds)]
        owners = [np.zeros(0, np.intp)]
        left = not_empty = np.flatnonzero(count)
        for place in range(int(count.max(initial=0))):
            left = left[count[left] > place]
            owners.append(left)
            found.append(self.part(left, read))
        self.mark(not_empty[self.part(not_empty, _Step.byte) != 0])
        whose = np.concatenate(owners)
        order = np.argsort(whose, kind="stable")
        columns = [pa.concat_arrays(column).take(of_numpy(order)) for column in zip(*found, strict=True)]
        return of_numpy(np.append(0, np.cumsum(count)).astype(np.int32), pa.int32()), whose[order], columns

    def _count(self) -> Numbers:
        """The number of items of each array or map, in its one block; none of a marked record."""
        count = self.number()
        most = max(_SHORT, int(np.partition(count, -_FEW)[-_FEW])) if len(count) >= _FEW else _SHORT
        self.mark((count < 0) | (count > most) | (count > self.whole.ends[self.records] - self.at))
        return np.where(self.marked[self.records], 0, count)


_READ: dict[type, Callable[[_Step, Any, pa.DataType], pa.Array]] = {
    Primitive: _Step.primitive,
    Fixed: _Step.fixed,
    Enum: _Step.enum,
    Record: _Step.record,
    Union: _Step.union,
    Array: _Step.array,
    Map: _Step.map,
}
