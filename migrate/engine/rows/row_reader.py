"""Batches of records to rows, in the columns that were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from formats import Format
from formats.layout import EXPIRY, HEADERS, PAYLOAD, SEQUENCE, TIMESTAMP, UNKNOWN_TIME, WINDOW_END, WINDOW_START
from formats.serde import BYTES, Serde
from migrate.engine.rows.arrays import of_numpy, repeated
from migrate.engine.rows.payload_columns import Decoded, PayloadColumn, decode_headers, times
from migrate.engine.rows.row_batch import RowBatch
from migrate.engine.rows.row_types import ERROR, TIME, row_schema
from migrate.engine.rows.row_values import MOST_MILLIS
from migrate.engine.rows.spans import Gathered, Spans
from migrate.errors import ConversionError, SpecError
from migrate.model.key_range import show_key
from migrate.stores.batch import Batch

_HINT = (
    "name the format and the serdes that wrote the store; leave a column out that is not needed (columns), or let such "
    "records be null with the reason in `_error` (mode PERMISSIVE)"
)


@dataclass(frozen=True)
class RowReader:
    """Reads records of one format as rows. It can be pickled."""

    known: Format
    _: KW_ONLY
    key: Serde | None = None
    """The serde of keys; None: the format's own, which is that of bytes unless one was put in."""
    value: Serde | None = None
    columns: Sequence[str] = ()
    """The columns to read, in their order; none: all."""
    window_size_ms: int | None = None
    """The size of windows, which a window store does not hold; None: their ends are null."""
    permissive: bool = False
    """Whether a record that cannot be decoded is null, with the reason in one more column, instead of an error."""

    def __post_init__(self) -> None:
        """Raises SpecError for an unknown column, for a serde whose payloads no column holds, for a wrong size."""
        if self.window_size_ms is not None and not 0 < self.window_size_ms <= MOST_MILLIS:
            raise SpecError(f"a window of {self.window_size_ms} ms", hint="give its size in ms, of 1 or more")
        if self.window_size_ms is not None and self.known.kind != "window":
            raise SpecError(f"{self.known.id} has no windows whose size could be given", hint="leave the size out")
        _ = self.schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of `rows`; `_error` is the last one where it is there."""
        names = [name for name in self.columns if not (self.permissive and name == ERROR)]
        schema = row_schema(self.known, self._serdes[0], self._serdes[1], names)
        return schema.append(pa.field(ERROR, pa.string())) if self.permissive else schema

    def rows(
        self, batch: Batch | Gathered, task: str, partition: int | None, family: str = "default"
    ) -> pa.RecordBatch:
        """The rows of a batch in the format's layout: of a versioned store one a version, without its owner's own keys.

        Raises ConversionError for a record that cannot be decoded; ChunkFailedError for a batch of more than 2 GiB.
        """
        if own := self.known.metadata_keys:
            assert isinstance(batch, Batch)
            batch = batch.where([not key.startswith(own) for key in batch.keys])
        cut = RowBatch(self._stored, batch)
        constants = {"task": task, "partition": partition, "family": family}
        columns, reasons = [], dict[int, str]()
        for field in self.schema:
            if field.name in constants:
                columns.append(repeated(constants[field.name], field.type, len(cut)))
            elif field.name != ERROR:
                array, found = self._column(cut, field.name)
                columns.append(array)
                reasons = found | reasons
        if self.permissive:
            columns.append(_texts(reasons, len(cut)))
        elif reasons:
            row = min(reasons)
            raise _unreadable(cut.stored_keys[row], task, reasons[row])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def filled(self) -> set[str]:
        """The columns that are never null."""
        if self.permissive:
            return set()
        key, value = (each.is_by_columns for each in self._payloads)
        may_be_deleted = self.known.kind == "versioned"
        return {"task"} | ({"key"} if key else set()) | ({"value"} if value and not may_be_deleted else set())

    @property
    def is_by_columns(self) -> bool:
        """Whether NumPy and Arrow alone make the rows, and nothing of the user does."""
        found = [each for each, name in zip(self._payloads, ("key", "value"), strict=True) if name in self.schema.names]
        return "headers" not in self.schema.names and all(each.is_by_columns for each in found)

    @cached_property
    def _serdes(self) -> tuple[Serde, Serde]:
        return self.key or self.known.key_serde, self.value or self.known.value_serde

    @cached_property
    def _stored(self) -> Format:
        return replace(self.known, key_serde=BYTES, value_serde=BYTES)

    @cached_property
    def _payloads(self) -> tuple[PayloadColumn, PayloadColumn]:
        return PayloadColumn(self._serdes[0]), PayloadColumn(self._serdes[1])

    @cached_property
    def _orders(self) -> dict[str, str]:
        """By field: the order of its bytes."""
        fields = (*self.known.key_schema.fields, *self.known.value_layout.fields)
        return {field.name: "<" if field.is_little_endian else ">" for field in fields}

    def _column(self, cut: RowBatch, name: str) -> Decoded:
        if name in ("key", "value"):
            return self._payload(cut, name)
        if name == "valid_to":
            return cut.ends
        if name == "window_end" and self.known.kind == "window":
            return cut.keys.column(WINDOW_START, self._window_ends)
        part = _PARTS[name]
        side = cut.keys if part in (WINDOW_START, WINDOW_END, SEQUENCE) else cut.values
        return side.column(
            part, _DECODERS.get(name) or partial(self._times, part, has_unknown=name in ("timestamp", "expires"))
        )

    def _payload(self, cut: RowBatch, name: str) -> Decoded:
        number = 0 if name == "key" else 1
        serde, decode = self._serdes[number], self._payloads[number]
        side, headers = cut.keys if name == "key" else cut.payloads, None
        if getattr(serde, "frame", None) == "header" and HEADERS in self.known.carries:
            side, headers = cut.beside_headers(side)
        array, reasons = side.column(PAYLOAD, lambda spans: decode(spans, headers))
        of_layout = cut.keys.reasons | cut.values.reasons if headers is not None else side.reasons
        what = f"its {name} is not what the serde {serde.name!r} reads"
        return array, {row: why if row in of_layout else f"{what}: {why}" for row, why in reasons.items()}

    def _times(self, part: str, spans: Spans, *, has_unknown: bool) -> Decoded:
        millis = spans.numbers(self._orders[part])
        return times(millis, (millis == UNKNOWN_TIME) & has_unknown)

    def _window_ends(self, spans: Spans) -> Decoded:
        starts = spans.numbers(self._orders[WINDOW_START])
        if self.window_size_ms is None:
            return pa.nulls(len(spans), TIME), {}
        ends = np.minimum(starts, MOST_MILLIS) + self.window_size_ms
        return times(ends, np.zeros(len(spans), np.bool_))


def _texts(reasons: dict[int, str], count: int) -> pa.Array:
    return pa.array(map(reasons.get, range(count)), pa.string()) if reasons else pa.nulls(count, pa.string())


def _sequence(spans: Spans) -> Decoded:
    return of_numpy(spans.numbers(">", np.int32), pa.int32()), {}


_PARTS = {
    "timestamp": TIMESTAMP,
    "valid_from": TIMESTAMP,
    "expires": EXPIRY,
    "headers": HEADERS,
    "window_start": WINDOW_START,
    "window_end": WINDOW_END,
    "sequence": SEQUENCE,
}
"""By column: the field of a layout that it is made of."""
_DECODERS = {"headers": decode_headers, "sequence": _sequence}


def _unreadable(key: bytes, task: str, reason: str) -> ConversionError:
    return ConversionError(
        f"the record {show_key(key)} of the task {task} cannot be read: {reason}", key=key, reason=reason, hint=_HINT
    )
