"""Byte programs over columns of records of any size, as generated Python.

`[skip a span, copy the rest]` becomes a list comprehension that reads the span's size, checks it and slices. The data
of a program is bound to names, and never becomes code. Operations that work on columns, such as `Choose`, take their
part of all records as a column of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from formats.avro.program import AvroProgram
from formats.encoding.varint import read_varint
from formats.errors import EntryError
from formats.program import (
    SIZE_BYTES,
    Avro,
    Choose,
    Copy,
    Insert,
    InsertSize,
    Operation,
    Reverse,
    Skip,
    SkipSize,
    SpanOperation,
    fixed_size,
)
from migrate.engine.avro.function import Column, generate_column
from migrate.engine.bail_out import BailOutError, bail_out

Pairs = Callable[[list[tuple[bytes, bytes]]], list[tuple[bytes, bytes]]]
_START, _END = "", "len(v)"


@lru_cache(maxsize=256)
def compile_column(operations: tuple[Operation, ...]) -> Column:
    """A function that converts a column. It raises BailOutError, and has converted nothing then."""
    written = _Writer(operations).write()
    if written.parts:
        return _in_parts(written)
    if written.converted == "v":
        return lambda column: column
    convert: Column = _bind(f"lambda column: [{written.converted} for v in column]", written.names)
    return convert


@lru_cache(maxsize=256)
def compile_pairs(operations: tuple[Operation, ...]) -> Pairs:
    """A function that converts the values of (key, value) pairs, and raises as `compile_column`'s does."""
    written = _Writer(operations).write()
    if written.parts:
        column = _in_parts(written)
        return lambda pairs: [
            (key, value) for (key, _), value in zip(pairs, column([value for _, value in pairs]), strict=True)
        ]
    convert: Pairs = _bind(f"lambda pairs: [(k, {written.converted}) for k, v in pairs]", written.names)
    return convert


@dataclass(frozen=True, slots=True)
class _Source:
    """An expression over one record `v` and the results `m0`, `m1`, ... of converting parts of it as columns."""

    expression: str
    condition: str
    """The condition under which the expression holds; empty: always."""
    names: dict[str, Any]
    parts: list[tuple[str, Column]]
    """For each such column: the expression for a record's part, and the function that converts the column."""

    @property
    def converted(self) -> str:
        """The expression, which bails out unless its condition is met."""
        return self.checked(self.expression)

    def checked(self, expression: str) -> str:
        """The given expression, which bails out unless the condition is met."""
        return f"{expression} if {self.condition} else bail_out()" if self.condition else expression


def _in_parts(written: _Source) -> Column:
    """A function that converts the parts of all records, and joins each record again."""
    cuts: list[Column] = []
    for taken, convert in written.parts:
        cut: Column = _bind(f"lambda column: [{written.checked(taken)} for v in column]", written.names)
        cuts.append(convert if taken == "v" and not written.condition else _after(cut, convert))
    if written.expression == "m0" and len(cuts) == 1:
        return cuts[0]
    names = ", ".join(f"m{number}" for number in range(len(cuts)))
    loop = f"lambda column, *parts: [{written.converted} for v, {names} in zip(column, *parts, strict=True)]"
    join: Callable[..., list[bytes]] = _bind(loop, written.names)
    return lambda column: join(column, *(cut(column) for cut in cuts))


def _after(first: Column, second: Column) -> Column:
    return lambda column: second(first(column))


def _bind(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    bind: Callable[..., Callable[..., Any]] = eval(f"lambda {', '.join(names)}: {source}")
    return bind(**names)


@dataclass(frozen=True, slots=True)
class _Position:
    """A position in a record: `offset` bytes behind its start, its end (`offset` is negative then) or a variable."""

    base: str
    offset: int

    def __str__(self) -> str:
        if self.base == _START:
            return str(self.offset)
        return f"{self.base} {'-' if self.offset < 0 else '+'} {abs(self.offset)}" if self.offset else self.base

    @property
    def as_index(self) -> str:
        """The position as an index, which may count from the end."""
        return str(self.offset or "") if self.base == _END else str(self)

    def moved(self, size: int) -> _Position:
        return _Position(self.base, self.offset + size)


_FIRST = _Position(_START, 0)


def _slice(start: _Position, end: _Position) -> str:
    if start == end:
        return "b''"
    return "v" if (start, end) == (_FIRST, _Position(_END, 0)) else f"v[{start.as_index}:{end.as_index}]"


@dataclass(slots=True)
class _Writer:
    """Follows a program through a record, and writes its expression."""

    operations: tuple[Operation, ...]
    _at: _Position = _FIRST
    _copied: _Position | None = None
    """Where the piece that is being copied begins."""
    _terms: list[str | InsertSize] = field(default_factory=list)
    _conditions: list[str] = field(default_factory=list)
    _names: dict[str, Any] = field(default_factory=lambda: {"bail_out": bail_out, "size": struct.Struct("<i").pack})
    _parts: list[tuple[str, Column]] = field(default_factory=list)

    def write(self) -> _Source:
        needed = fixed_size(self.operations)
        for number, operation in enumerate(self.operations):
            if isinstance(operation, InsertSize):
                self._put(operation)
            elif isinstance(operation, Insert):
                self._put(self._named("c", operation.data))
            else:
                self._read(operation, fixed_size(self.operations[number + 1 :]))
        self._end_copy()
        if self._at.base == _START:
            self._conditions.insert(0, f"len(v) == {needed}")
        elif needed:
            self._conditions.insert(0, f"len(v) >= {needed}")
        if self._at.base not in (_START, _END):
            self._conditions.append(f"{self._at} == len(v)")
        return _Source(self._joined(self._terms), " and ".join(self._conditions), self._names, self._parts)

    def _read(self, operation: Operation, behind: int) -> None:
        """Write one operation; `behind`: the bytes that the operations after it need."""
        match operation:
            case Copy(size=size):
                self._copy(_Position(_END, -behind) if size is None else self._at.moved(size))
            case Skip(size=size):
                self._skip(_Position(_END, -behind) if size is None else self._at.moved(size))
            case Reverse(size=size):
                end = self._at.moved(size)
                self._put(f"{_slice(self._at, end)}[::-1]")
                self._at = end
            case SkipSize():
                end = self._at.moved(SIZE_BYTES)
                self._conditions.append(f"{_slice(self._at, end)} == size(len(v) - ({end}))")
                self._skip(end)
            case SpanOperation(does=does):
                self._span(does_copy=does == "copy", behind=behind)
            case Choose():
                self._part(_choose_column(operation), behind)
            case Avro(program=program):
                self._part(_avro_column(program), behind)

    def _copy(self, end: _Position) -> None:
        if self._copied is None:
            self._copied = self._at
        self._at = end

    def _skip(self, end: _Position) -> None:
        self._end_copy()
        self._at = end

    def _end_copy(self) -> None:
        start, self._copied = self._copied, None
        if start not in (None, self._at):
            self._terms.append(_slice(start, self._at))

    def _put(self, term: str | InsertSize) -> None:
        self._end_copy()
        self._terms.append(term)

    def _named(self, kind: str, value: object) -> str:
        name = f"{kind}{len(self._names)}"
        self._names[name] = value
        return name

    def _span(self, *, does_copy: bool, behind: int) -> None:
        """Copy or skip a span. A size below 64 is one even byte below 128, which is read without a call."""
        self._names["span_end"] = _span_end
        number = len(self._conditions)
        first, end = f"n{number}", f"p{number}"
        short = f"{self._at.moved(1)} + ({first} >> 1) if not ({first} := v[{self._at.as_index}]) & 129"
        self._conditions.append(f"({end} := {short} else span_end(v, {self._at})) <= {_Position(_END, -behind)}")
        self._copy(_Position(end, 0)) if does_copy else self._skip(_Position(end, 0))

    def _part(self, convert: Column, behind: int) -> None:
        end = _Position(_END, -behind)
        self._put(f"m{len(self._parts)}")
        self._parts.append((_slice(self._at, end), convert))
        self._at = end

    def _joined(self, terms: list[str | InsertSize]) -> str:
        """The terms, joined in their order; an `InsertSize` becomes the size of the terms behind it."""
        plain: list[str] = []
        for number, term in enumerate(terms):
            if isinstance(term, InsertSize):
                rest = f"s{len(terms) - number}"
                plain += [f"size(len({rest} := {self._joined(terms[number + 1 :])}))", rest]
                break
            plain.append(term)
        return " + ".join(plain) or "b''"


def _span_end(data: bytes, at: int) -> int:
    """Where a span that begins at `at` ends. Raises BailOutError."""
    try:
        size, content = read_varint(data, at)
    except EntryError as error:
        raise BailOutError from error
    if size < 0:
        raise BailOutError
    return content + size


def _avro_column(program: AvroProgram) -> Column:
    """A function that converts a column of Avro values to another schema."""
    resolve = generate_column(program)

    def convert(column: list[bytes]) -> list[bytes]:
        try:
            return resolve(column)
        except EntryError as error:
            raise BailOutError from error

    return convert


def _choose_column(operation: Choose) -> Column:
    """A function that converts each record by its prefix: the records of one case are a column of their own."""
    cases = {prefix: compile_column((Skip(len(prefix)), *inner)) for prefix, inner in operation.cases}
    sizes = {len(prefix) for prefix in cases}

    def prefixes(column: list[bytes]) -> list[bytes]:
        if len(sizes) == 1:
            (size,) = sizes
            return [v[:size] for v in column]
        return [next((v[:size] for size in sizes if v[:size] in cases), v) for v in column]

    def convert(column: list[bytes]) -> list[bytes]:
        heads = prefixes(column)
        found = set(heads)
        if not found <= cases.keys():
            raise BailOutError
        if len(found) == 1:
            return cases[found.pop()](column)
        converted = {
            head: iter(cases[head]([v for v, h in zip(column, heads, strict=True) if h == head])) for head in found
        }
        return [next(converted[head]) for head in heads]

    return convert
