"""Parts of many records as positions in one buffer, and the cut of a layout's fields: no object for a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats.layout import PAYLOAD, Field, Framing
from migrate.engine.rows.arrays import Bytes, Mask, Numbers, Rows, of_numpy
from migrate.errors import ChunkFailedError
from migrate.stores.batch import Buffer

_WORD = 8
_MOST = (1 << 31) - 1
_ENDS = np.uint64(0x8080808080808080)
_GROUPS = (  # (bits that stay, bits that move, by how many): seven bits of each byte become one number
    (0x007F007F007F007F, 0x7F007F007F007F00, 1),
    (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
    (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
)


@dataclass(frozen=True, slots=True)
class Spans:
    """The bytes from each start to its end, in ascending order; they do not overlap."""

    data: Bytes
    """With some bytes behind the last span, so that a word can be read from each position."""
    starts: Numbers
    ends: Numbers

    @classmethod
    def of(cls, joined: Buffer, sizes: npt.NDArray[np.integer]) -> Spans:
        """Spans of these sizes, one after the other. Raises ChunkFailedError for more than an Arrow column holds."""
        check_fits(memoryview(joined).nbytes)
        ends = np.cumsum(sizes, dtype=np.int64)
        data = np.concatenate([np.frombuffer(joined, np.uint8), np.zeros(_WORD, np.uint8)])
        return cls(data, ends - sizes, ends)

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[bytes]:
        return (self.data[start:end].tobytes() for start, end in zip(self.starts, self.ends, strict=True))

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]].tobytes()

    @property
    def sizes(self) -> Numbers:
        return self.ends - self.starts

    def some(self, rows: Rows) -> Spans:
        """These spans, whose numbers ascend."""
        return self if len(rows) == len(self) else Spans(self.data, self.starts[rows], self.ends[rows])

    def matrix(self, size: int) -> Bytes:
        """The first `size` bytes of each span, as rows; of a shorter span also what follows it."""
        return self.data.take(self.starts[:, None] + np.arange(size), mode="clip")

    def numbers(self, order: str, kind: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
        """The numbers that the spans begin with, of up to 8 bytes; `order` of the bytes: "<" or ">"."""
        size = np.dtype(kind).itemsize
        words = read_words(self.data, self.starts)
        if order == ">":
            words = words.byteswap() >> np.uint64(8 * (_WORD - size))
        return words.astype(f"<u{size}").view(kind)

    def binary(self, kind: pa.DataType) -> pa.Array:
        """The spans as an array of `binary` or `string`; text is not checked."""
        count = len(self)
        if not count:
            return pa.nulls(0, kind)
        if (self.starts[1:] == self.ends[:-1]).all():
            offsets = np.append(self.starts, self.ends[-1:]).astype(np.int32)
            return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])
        offsets = np.stack([self.starts, self.ends], axis=1).astype(np.int32).ravel()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        gaps_too = pa.Array.from_buffers(kind, 2 * count - 1, buffers)
        return gaps_too.take(of_numpy(np.arange(0, 2 * count, 2)))


class Gathered(NamedTuple):
    """Records in key order, in the layout of their format: `values` has one for each of `keys`."""

    keys: Spans
    values: Spans


def check_fits(size: int) -> None:
    """Raises ChunkFailedError for more bytes than an Arrow column holds."""
    if size > _MOST:
        raise ChunkFailedError(
            "one batch of records holds more than 2 GiB of keys or values, which a column of Arrow cannot",
            hint="leave that column out: columns = ...",
        )


def read_words(data: Bytes, at: Numbers) -> npt.NDArray[np.uint64]:
    """The 8 bytes from each position on, as little-endian numbers; a position behind the last word reads that one."""
    words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
    found: npt.NDArray[np.uint64] = words[np.minimum(at, len(words) - 1)]
    return found


def read_varints(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers, Mask]:
    """(the zigzag varints from these positions on, where they end, which are not in the form that a writer writes).

    Those of up to 64 bits; numbers that are wrong are any.
    """
    word = read_words(data, at)
    end = ~word & _ENDS
    end &= np.uint64(0) - end  # the lowest of those bits
    size = ((end.astype(np.float64).view(np.int64) >> 52) - 1022) >> 3
    value = word & (end - np.uint64(1))
    for stays, moves, by in _GROUPS:
        value = (value & np.uint64(stays)) | ((value & np.uint64(moves)) >> np.uint64(by))
    wrong = (size > 1) & (value >> (7 * np.maximum(size - 1, 0)).astype(np.uint64) == 0)
    if len(longer := np.flatnonzero(end == 0)):
        last = [data.take(at[longer] + place, mode="clip").astype(np.uint64) for place in (8, 9)]
        is_ten = last[0] > 127
        value[longer] |= (last[0] & np.uint64(127)) << np.uint64(56)
        value[longer] |= np.where(is_ten, last[1] << np.uint64(63), np.uint64(0))
        size[longer] = 9 + is_ten
        wrong[longer] = np.where(is_ten, last[1] != 1, last[0] == 0)
    sign = (value & np.uint64(1)).astype(np.int64)
    return (value >> np.uint64(1)).astype(np.int64) ^ -sign, at + size, wrong


def cut_fields(fields: tuple[Field, ...], whole: Spans) -> tuple[dict[str, Spans], Mask]:
    """(each field's spans, which records are not of the layout: their spans are any).

    A field whose size is written with it begins with that size.
    """
    data, at, end = whole.data, whole.starts, whole.ends
    parts: dict[str, Spans] = {}
    rest = [field.name for field in fields].index(PAYLOAD)
    for field in reversed(fields[rest + 1 :]):
        assert field.size is not None
        parts[field.name] = Spans(data, end - field.size, end)
        end = end - field.size
    wrong = np.zeros(len(whole), dtype=np.bool_)
    for field in fields[:rest]:
        start, at, is_wrong = at, *_behind(field, data, at, end)
        parts[field.name] = Spans(data, start, at)
        wrong |= is_wrong
    parts[PAYLOAD] = Spans(data, at, end)
    return parts, wrong | (at > end)


def _behind(field: Field, data: Bytes, at: Numbers, end: Numbers) -> tuple[Numbers, Mask]:
    """(where the field that begins there ends, for which records that is wrong)."""
    if field.framing is Framing.SPAN:
        size, at, wrong = read_varints(data, at)
        wrong |= (size < 0) | (size > end - at)
        return at + np.where(wrong, 0, size), wrong
    assert field.size is not None
    head = Spans(data, at, at + field.size).matrix(field.size)
    if field.framing is Framing.SIZE:
        sizes = head.view("<i4").ravel().astype(np.int64)
        return at + field.size, sizes != end - at - field.size
    if not field.prefixes:
        return at + field.size, np.zeros(len(at), dtype=np.bool_)
    fits = [(head[:, : len(each)] == np.frombuffer(each, np.uint8)).all(axis=1) for each in field.prefixes]
    return at + field.size, ~np.logical_or.reduce(fits)
