"""From two schemas to the program that turns a value of one into a value of the other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from formats.avro.defaults import default_tree
from formats.avro.fastavro_tree import SIZES, codec
from formats.avro.matching import Pairing, pair
from formats.avro.operations import (
    Arrange,
    Call,
    Choice,
    Drop,
    Emit,
    Keep,
    Operation,
    Operations,
    Promote,
    Refuse,
    Repeat,
)
from formats.avro.program import AvroProgram
from formats.avro.resolvable import compare
from formats.avro.schema import AvroSchema, types_of
from formats.avro.types import Array, AvroField, Enum, Fixed, Map, Named, Primitive, Record, Type, Union
from formats.encoding.varint import pack_varint
from formats.errors import UnresolvableSchemasError

SHARED = 24
"""A record of more operations than this is compiled once and called, if it occurs several times."""


def compile_schemas(writer: AvroSchema, reader: AvroSchema) -> AvroProgram:
    """The program for values of two schemas. Raises UnresolvableSchemasError."""
    pairing = pair(types_of(writer), types_of(reader))
    if problems := compare(pairing).problems:
        raise UnresolvableSchemasError(tuple(problems))
    return compile_pairing(pairing)


def compile_pairing(pairing: Pairing) -> AvroProgram:
    """The program for schemas that are known to be resolvable."""
    compiler = _Compiler(pairing, pairing.writer.recursive())
    main = compiler.types(pairing.writer.root, pairing.reader.root)
    return AvroProgram(_merged(main), tuple(sorted(compiler.named.items())))


@dataclass(slots=True)
class _Compiler:
    pairing: Pairing
    recursive: frozenset[str]
    named: dict[str, Operations] = field(default_factory=dict)
    """The named parts of the program, also those of `dropping`; one that is being compiled is empty."""
    inlined: dict[str, Operations] = field(default_factory=dict)
    """Records that occurred once so far."""
    least: dict[str, int] = field(default_factory=dict)
    """The smallest sizes of the old records that arrays and maps hold."""
    dropping: _Compiler | None = None

    def types(self, old: Type, new: Type) -> Operations:
        if isinstance(old, Union):
            return (Choice(tuple(_merged(self._branch(branch, new)) for branch in old.branches)),)
        if isinstance(new, Union):
            return self._branch(old, new)
        if isinstance(old, Primitive) and isinstance(new, Primitive):
            return _primitive(old.kind, new.kind)
        if isinstance(old, Array) and isinstance(new, Array):
            return (Repeat(_merged(self.types(old.items, new.items)), self._least(old.items)),)
        if isinstance(old, Map) and isinstance(new, Map):
            body = (Keep("string"), *self.types(old.values, new.values))
            return (Repeat(_merged(body), 1 + self._least(old.values)),)
        assert isinstance(old, Named) and isinstance(new, Named)  # the pair was found to be resolvable
        return self._named(old, new)

    def _branch(self, old: Type, new: Type) -> Operations:
        refused = (Refuse(f"a value of {self.pairing.writer.definition(old)} has no place in the new schema"),)
        if not isinstance(new, Union):
            return self.types(old, new) if self.pairing.matches(old, new) else refused
        number = self.pairing.branch(old, new)
        if number is None:
            return refused
        return Emit(pack_varint(number)), *self.types(old, new.branches[number])

    def _named(self, old: Named, new: Named) -> Operations:
        before, after = self.pairing.writer.named[old.name], self.pairing.reader.named[new.name]
        if isinstance(before, Fixed):
            return (Keep("fixed", before.size),) if before.size else ()
        if isinstance(before, Enum) and isinstance(after, Enum):
            return (Choice(tuple(self._symbols(before, after))),)
        assert isinstance(before, Record) and isinstance(after, Record)  # the pair was found to be resolvable
        label = _label(old.name)
        if self.pairing.writer is not self.pairing.reader:
            label += f" to {_label(new.name)}"
        if old.name in self.recursive:
            if label not in self.named:
                self.named[label] = ()
                self.named[label] = _merged(self._record(before, after))
            return (Call(label, 1),)
        return self._shared(label, before, after)

    def _shared(self, label: str, old: Record, new: Record) -> Operations:
        if label in self.named:
            return (Call(label, 0),)
        if label not in self.inlined:
            self.inlined[label] = _merged(self._record(old, new))
        elif _size(self.inlined[label]) > SHARED:
            self.named[label] = self.inlined[label]
            return (Call(label, 0),)
        return self.inlined[label]

    def _symbols(self, old: Enum, new: Enum) -> list[Operations]:
        found = zip(old.symbols, self.pairing.symbols(old, new), strict=True)
        return [
            (Refuse(f"the symbol {symbol} has no place in the new schema"),)
            if number is None
            else (Emit(pack_varint(number)),)
            for symbol, number in found
        ]

    def _record(self, old: Record, new: Record) -> Operations:
        sources = self.pairing.fields(old, new)
        kept = [source for source in sources if source is not None]
        if kept != sorted(kept):
            return self._rearranged(old, new, sources)
        out: list[Operation] = []
        after, numbers = 0, {*kept}
        for number, before in enumerate(old.fields):
            if number not in numbers:
                out.append(Drop(self._dropped(before.type)))
                continue
            while sources[after] is None:
                out.append(self._default(new.fields[after]))
                after += 1
            out.extend(self.types(before.type, new.fields[after].type))
            after += 1
        out.extend(self._default(wanted) for wanted in new.fields[after:])
        return tuple(out)

    def _rearranged(self, old: Record, new: Record, sources: tuple[int | None, ...]) -> Operations:
        """An `Arrange`: its parts are the old fields, then the new fields that take their defaults."""
        wanted = {source: new.fields[number] for number, source in enumerate(sources) if source is not None}
        parts = [
            self.types(before.type, wanted[number].type) if number in wanted else self._dropped(before.type)
            for number, before in enumerate(old.fields)
        ]
        order = []
        for number, source in enumerate(sources):
            order.append(len(parts) if source is None else source)
            if source is None:
                parts.append((self._default(new.fields[number]),))
        return (Arrange(tuple(map(_merged, parts)), tuple(order)),)

    def _dropped(self, old: Type) -> Operations:
        """Operations that read and check a value that is not written."""
        if self.dropping is None:
            same = Pairing(self.pairing.writer, self.pairing.writer)
            self.dropping = _Compiler(same, self.recursive, self.named)
        return _merged(self.dropping.types(old, old))

    def _least(self, old: Type) -> int:
        """The smallest size of a value in bytes; for a recursive type, a lower bound."""
        known = self.pairing.writer.definition(old)
        if isinstance(known, Primitive):
            return 0 if known.kind == "null" else SIZES.get(known.kind, 1)
        if isinstance(known, Union):
            return 1 + min(map(self._least, known.branches))
        if isinstance(known, Fixed):
            return known.size
        if not isinstance(known, Record):
            return 1
        if known.name not in self.least:
            self.least[known.name] = 0  # for what it holds of itself
            self.least[known.name] = sum(self._least(each.type) for each in known.fields)
        return self.least[known.name]

    def _default(self, wanted: AvroField) -> Emit:
        tree = default_tree(self.pairing.reader, wanted)
        return Emit(codec(self.pairing.reader, wanted.type).encode(tree))


def _label(name: str) -> str:
    """A name that may be any text, such that it ends where it ends."""
    return name if name.replace(".", "").isidentifier() else json.dumps(name)


def _primitive(old: str, new: str) -> Operations:
    if old == "null":
        return ()
    if new in SIZES and old != new:
        return (Promote(old, new),)
    if {old, new} == {"string", "bytes"}:
        return (Keep("string"),)
    return (Keep(old, SIZES.get(old, 0)),)


def _merged(operations: Operations) -> Operations:
    """The operations, with adjacent `Emit`s merged and empty ones removed."""
    out: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Drop) and not operation.body:
            continue
        if isinstance(operation, Emit) and not operation.data:
            continue
        if isinstance(operation, Emit) and out and isinstance(out[-1], Emit):
            out[-1] = Emit(out[-1].data + operation.data)
        else:
            out.append(operation)
    return tuple(out)


def _size(operations: Operations) -> int:
    """The number of operations, nested ones included."""
    return sum(1 + _size_within(operation) for operation in operations)


def _size_within(operation: Operation) -> int:
    if isinstance(operation, Drop | Repeat):
        return _size(operation.body)
    if isinstance(operation, Choice):
        return sum(map(_size, operation.branches))
    return sum(map(_size, operation.parts)) if isinstance(operation, Arrange) else 0
