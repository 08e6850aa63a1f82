"""One batch of records, cut into the parts that columns are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from formats import EntryError, Format
from formats.layout import HEADERS, HISTORY, PAYLOAD_FIELD, Field
from formats.wide_columns import NOT_A_PAIR, WideColumns
from migrate.engine.rows.arrays import Rows, spread
from migrate.engine.rows.payload_columns import Decoded, times
from migrate.engine.rows.spans import Gathered, Spans, cut_fields
from migrate.engine.rows.versions import Versions, versions_of
from migrate.stores.batch import Batch

_VERSIONED_KEY = (Field("segment", 8), PAYLOAD_FIELD)


@dataclass(frozen=True, slots=True)
class Side:
    """The parts of a batch's keys, or of its values."""

    count: int
    rows: Rows
    """Those that have the parts."""
    parts: dict[str, Spans]
    """Of those rows, by the names of the layout's fields."""
    reasons: dict[int, str]
    """Why other rows have none; a row without a reason is null."""

    def column(self, part: str, decode: Callable[[Spans], Decoded]) -> Decoded:
        """A column over all rows, of a part of each."""
        array, reasons = decode(self.parts[part])
        placed = {int(self.rows[at]): reason for at, reason in reasons.items()}
        return spread(array, self.rows, self.count), self.reasons | placed


class RowBatch:
    """Records of a format, whose serdes are those of bytes."""

    def __init__(self, stored: Format, batch: Batch | Gathered) -> None:
        self._stored = stored
        self.is_versioned = HISTORY in stored.carries
        self._versions = Versions()
        self._batch = batch
        if self.is_versioned:
            assert isinstance(batch, Batch)
            self._batch, self._versions = versions_of(stored, batch)

    def __len__(self) -> int:
        return len(self._batch.keys)

    @property
    def stored_keys(self) -> list[bytes] | Spans:
        """The key of each row's entry."""
        return self._versions.stored_keys if self.is_versioned else self._batch.keys

    @cached_property
    def keys(self) -> Side:
        fields = _VERSIONED_KEY if self.is_versioned else self._stored.key_schema.fields
        return _cut(fields, self._spans(0), {}, lambda row: self._stored.decode_key(self.stored_keys[row]))

    @cached_property
    def values(self) -> Side:
        values, layout = self._batch.values, self._stored.value_layout
        reasons = dict(self._versions.reasons)
        if self._stored.has_columns(values):
            reasons |= {row: NOT_A_PAIR for row, value in enumerate(values) if type(value) is WideColumns}
        return _cut(layout.fields, self._spans(1), reasons, lambda row: layout.unpack(values[row]))

    @cached_property
    def payloads(self) -> Side:
        """The values, without those of versions in which the key was deleted."""
        side = self.values
        kept = np.flatnonzero(~np.isin(side.rows, self._versions.deleted))
        parts = {name: spans.some(kept) for name, spans in side.parts.items()}
        return Side(side.count, side.rows[kept], parts, side.reasons)

    def beside_headers(self, side: Side) -> tuple[Side, Spans]:
        """(a side, of the rows whose values have the parts too; the headers of those rows)."""
        values = self.values
        _, own, others = np.intersect1d(side.rows, values.rows, assume_unique=True, return_indices=True)
        parts = {name: spans.some(own) for name, spans in side.parts.items()}
        both = Side(side.count, side.rows[own], parts, side.reasons | values.reasons)
        return both, values.parts[HEADERS].some(others)

    def _spans(self, part: int) -> Spans:
        """The keys (0), or the values (1)."""
        if isinstance(batch := self._batch, Gathered):
            return batch[part]
        joined = batch.joined_values if part else batch.joined_keys
        return Spans.of(joined, np.frombuffer(batch.lengths, "<u4").reshape(-1, 2)[:, part])

    @property
    def ends(self) -> Decoded:
        """When each version ended."""
        ends = self._versions.ends
        is_null = np.array([end is None for end in ends], np.bool_)
        return times(np.array([end or 0 for end in ends], np.int64), is_null)


def _cut(fields: tuple[Field, ...], whole: Spans, known: dict[int, str], decode: Callable[[int], object]) -> Side:
    """`known`: reasons by row; `decode`: the reference, which has the reason for another row."""
    parts, wrong = cut_fields(fields, whole)
    reasons = {int(row): _reason(decode, int(row)) for row in np.flatnonzero(wrong)} | known
    wrong[[*known]] = True
    rows = np.flatnonzero(~wrong)
    return Side(len(whole), rows, {name: spans.some(rows) for name, spans in parts.items()}, reasons)


def _reason(decode: Callable[[int], object], row: int) -> str:
    try:
        decode(row)
    except EntryError as error:
        return str(error)
    raise AssertionError("the fields of a layout and its reference do not agree")
