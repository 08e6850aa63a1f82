"""Rows to the records of a store: the inverse of `row_reader`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formats import Format
from formats.layout import (
    HEADERS,
    PAYLOAD,
    SEQUENCE,
    TIMESTAMP,
    UNKNOWN_TIME,
    VALUE_SIZE,
    WINDOW_END,
    WINDOW_START,
    Field,
)
from formats.serde import Serde
from migrate.engine.rows.arrays import Mask
from migrate.engine.rows.payload_bytes import Encoded, headers_bytes, of_words, payload_bytes, words_of
from migrate.engine.rows.row_types import row_schema
from migrate.errors import ChunkFailedError, SpecError, did_you_mean
from migrate.stores.batch import Batch

_COLUMNS = {TIMESTAMP: "timestamp", HEADERS: "headers", WINDOW_START: "window_start", WINDOW_END: "window_end"}
"""By field of a layout: the column that holds it."""
_FIELDS = {PAYLOAD, VALUE_SIZE, SEQUENCE, *_COLUMNS}
_LEFT_OUT = ("task", "partition", "window_end")
_NO_SPACE = pa.scalar(b"", pa.binary())
_HINT = "change that row in the table, and import its new version"


class EncodedRows(NamedTuple):
    """The records of rows, in their order."""

    records: Batch
    """The value is empty where the row has none."""
    is_absent: Mask
    """The rows whose value is null: they hold no record."""


@dataclass(frozen=True)
class RowEncoder:
    """Makes records of one format from rows. It can be pickled."""

    known: Format
    _: KW_ONLY
    key: Serde | None = None
    """The serde of keys; None: the format's own, which is that of bytes unless one was put in."""
    value: Serde | None = None

    def __post_init__(self) -> None:
        """Raises SpecError for a format whose records are not made of rows, and for a serde that no column holds."""
        fields = {field.name for layout in (self.known.key_schema, self.known.value_layout) for field in layout.fields}
        if fields - _FIELDS or self.known.column_families is None or self.known.kind == "versioned":
            raise SpecError(
                f"no store of {self.known.id} can be made from rows yet",
                hint="those of key-value, window and session stores can: stateferry formats",
            )
        _ = self.schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that are read: where a record belongs is not among them, nor the end of a window by its size."""
        every = row_schema(self.known, *self._serdes)
        has_end = self.known.kind == "session"
        kept = [each for each in every if each.name not in _LEFT_OUT or (each.name == "window_end" and has_end)]
        return pa.schema(kept)

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """Those that make a record's key, none of which may be null."""
        of_key = {_COLUMNS.get(field.name, field.name) for field in self.known.key_schema.fields}
        return tuple(name for name in self.schema.names if name == "key" or name in of_key)

    @property
    def time_column(self) -> str:
        """The one that determines the segment of a windowed record."""
        return "window_end" if self.known.kind == "session" else "window_start"

    def check(self, found: pa.Schema) -> None:
        """Raises SpecError where a table of these columns does not have those that are read, or others."""
        for name in found.names:
            if name not in self.schema.names and name not in _LEFT_OUT:
                near = did_you_mean(name, self.schema.names, f"known: {', '.join(self.schema.names)}")
                raise SpecError(f"the table has a column {name!r}, which rows of {self.known.id} have not", hint=near)
        for wanted in self.schema:
            if wanted.name not in found.names:
                columns = ", ".join(f"{each.name} ({each.type})" for each in self.schema)
                raise SpecError(
                    f"the table has no column {wanted.name!r}", hint=f"rows of {self.known.id} have: {columns}"
                )
            there = found.field(wanted.name).type
            if not _is_same(there, wanted.type):
                raise SpecError(
                    f"the column {wanted.name!r} of the table is {there}, and not {wanted.type}",
                    hint="cast it in the table, or name the serde that writes it: [conversion.key] or "
                    "[conversion.value], to = ...",
                )

    def encode(self, rows: pa.RecordBatch, table: str, first: int = 0) -> EncodedRows:
        """The records of rows, among whose columns are those of `schema`.

        `table`: where they are from, and `first`: which row of it is the first. Raises ChunkFailedError for a row that
        is none of the format, which it names.
        """
        columns = {each.name: rows.column(each.name).cast(each.type) for each in self.schema}
        reasons: dict[int, str] = {}
        keys, values = (self._side(name, columns, reasons) for name in ("key", "value"))
        self._check(reasons, table, first)
        is_absent = columns["value"].is_null().to_numpy(zero_copy_only=False)
        return EncodedRows(Batch(keys, values), is_absent)

    def encode_keys(self, rows: pa.RecordBatch, table: str, first: int = 0, step: int = 1) -> list[bytes]:
        """As `encode`, by the columns of the key alone. `step`: each row is so many behind the one before it."""
        columns = {name: rows.column(name).cast(self.schema.field(name).type) for name in self.key_columns}
        reasons: dict[int, str] = {}
        keys = self._side("key", columns, reasons)
        self._check(reasons, table, first, step)
        return keys

    def _side(self, name: str, columns: dict[str, pa.Array], reasons: dict[int, str]) -> list[bytes]:
        layout, serde = self.known.value_layout, self._serdes[1]
        if name == "key":
            layout, serde = self.known.key_schema, self._serdes[0]
        parts = self._parts(layout.fields, name, serde, columns, reasons)
        return _pieces(pc.binary_join_element_wise(*parts, _NO_SPACE))

    def _check(self, reasons: dict[int, str], table: str, first: int, step: int = 1) -> None:
        if reasons:
            row = min(reasons)
            raise ChunkFailedError(
                f"row {first + row * step} of {table} is no record of {self.known.id}: {reasons[row]}", hint=_HINT
            )

    @cached_property
    def _serdes(self) -> tuple[Serde, Serde]:
        return self.key or self.known.key_serde, self.value or self.known.value_serde

    def _parts(
        self,
        fields: tuple[Field, ...],
        name: str,
        serde: Serde,
        columns: dict[str, pa.Array],
        reasons: dict[int, str],
    ) -> Iterator[pa.Array]:
        """The bytes of each field, of keys or of values."""
        payloads, found = payload_bytes(serde, columns[name])
        reasons |= {row: f"its {name} cannot be written: {why}" for row, why in found.items()}
        if name == "key":
            reasons |= self._flaws_of_keys(columns)
        for field in fields:
            if field.name == PAYLOAD:
                yield payloads
            elif field.name == VALUE_SIZE:
                yield of_words(pc.binary_length(payloads).to_numpy(), "<")
            else:
                encoded, found = self._carried(field, columns)
                reasons |= found
                yield encoded

    def _flaws_of_keys(self, columns: dict[str, pa.Array]) -> dict[int, str]:
        found = dict[int, str]()
        if self.known.kind == "session":
            start, end = (words_of(columns[name].view(pa.int64())) for name in ("window_start", "window_end"))
            found |= {int(row): "its window_end is before its window_start" for row in np.flatnonzero(end < start)}
        for name in self.key_columns:
            for row in np.flatnonzero(columns[name].is_null().to_numpy(zero_copy_only=False)):
                found[int(row)] = f"its {name} is null"
        return found

    def _carried(self, field: Field, columns: dict[str, pa.Array]) -> Encoded:
        order: Literal["<", ">"] = "<" if field.is_little_endian else ">"
        if field.name == SEQUENCE:
            return of_words(words_of(columns[SEQUENCE]), order), {}
        column = columns[_COLUMNS[field.name]]
        if field.name == HEADERS:
            return headers_bytes(column, self._serdes)
        micros = words_of(column.view(pa.int64()))
        wrong = np.flatnonzero(micros % 1000)
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        millis = np.where(is_null, UNKNOWN_TIME, micros // 1000)
        what = f"its {_COLUMNS[field.name]} has a part of a millisecond, which no store holds"
        return of_words(millis, order), {int(row): what for row in wrong}


def _pieces(array: pa.Array) -> list[bytes]:
    """The values, none of which is null."""
    _, ends, data = array.buffers()
    at = np.frombuffer(ends, np.int32, len(array) + 1).tolist()
    whole = b"" if data is None else data.to_pybytes()
    return [whole[start:end] for start, end in pairwise(at)]


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the types have the same values, whatever they call the entries of lists and maps."""
    for is_kind in (pa.types.is_struct, pa.types.is_list, pa.types.is_map):
        if is_kind(wanted):
            if not is_kind(found) or found.num_fields != wanted.num_fields:
                return False
            pairs = [(found.field(at), wanted.field(at)) for at in range(wanted.num_fields)]
            is_named = is_kind is not pa.types.is_struct or all(one.name == other.name for one, other in pairs)
            return is_named and all(_is_same(one.type, other.type) for one, other in pairs)
    return bool(found == wanted)
