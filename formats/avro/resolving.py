"""The reference path: a value written with one schema, read with another by Avro's rules, and written again.

fastavro decodes and encodes. `Pairing` decides which type is read as which.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NoReturn

from formats.avro.binary import PACK
from formats.avro.compiling import compile_pairing
from formats.avro.defaults import default_tree
from formats.avro.fastavro_tree import KEY, SIZES, VALUE, Codec, Tree, branch_of, codec, is_empty, slot, tagged
from formats.avro.matching import Pairing, pair
from formats.avro.objects import ToObject, ToTree
from formats.avro.program import AvroProgram, pack_number, run_avro
from formats.avro.resolvable import Findings, Lost, compare
from formats.avro.schema import AvroSchema, types_of
from formats.avro.types import Array, Enum, Map, Named, Primitive, Record, Type, Union
from formats.errors import InvalidEntryError, UnresolvableSchemasError


def check_resolvable(writer: AvroSchema, reader: AvroSchema) -> None:
    """Check that values can be read. Raises UnresolvableSchemasError, which names the field, where none can.

    A branch or a symbol that the reader lacks only rejects the values that have it: see `Findings.risks`.
    """
    if problems := findings(writer, reader).problems:
        raise UnresolvableSchemasError(tuple(problems))


def losses_in(data: bytes, writer: AvroSchema, reader: AvroSchema) -> frozenset[str]:
    """Those of `Findings.losses` that hold something in this value, which can be resolved."""
    pairing, (tree, _) = _pairing(writer, reader), _codec(writer).decode(data)
    return frozenset(_lost(pairing, findings(writer, reader).lost, pairing.writer.root, pairing.reader.root, tree))


def _lost(pairing: Pairing, lost: Lost, old: Type, new: Type, tree: Tree) -> Iterator[str]:
    if isinstance(old, Union):
        number, tree = branch_of(tree)
        old = old.branches[number]
    if isinstance(new, Union):
        branch = pairing.branch(old, new)
        assert branch is not None  # the value can be resolved
        new = new.branches[branch]
    if isinstance(old, Named) and isinstance(new, Named):
        is_enum = isinstance(pairing.writer.named[old.name], Enum)
        for number, text in lost.get((old.name, new.name), {}).items():
            if number == tree if is_enum else not is_empty(tree[slot(number)]):
                yield text
    for part in _parts(pairing, old, new, tree):
        yield from _lost(pairing, lost, *part)


def _parts(pairing: Pairing, old: Type, new: Type, tree: Tree) -> Iterator[tuple[Type, Type, Tree]]:
    """The parts of a value that the new one has too, with their types."""
    if isinstance(old, Array) and isinstance(new, Array):
        yield from ((old.items, new.items, item) for item in tree)
    elif isinstance(old, Map) and isinstance(new, Map):
        yield from ((old.values, new.values, item[VALUE]) for item in tree)
    elif isinstance(old, Named) and isinstance(new, Named):
        before, after = pairing.writer.named[old.name], pairing.reader.named[new.name]
        if isinstance(before, Record) and isinstance(after, Record):
            for wanted, source in zip(after.fields, pairing.fields(before, after), strict=True):
                if source is not None:
                    yield before.fields[source].type, wanted.type, tree[slot(source)]


@lru_cache(maxsize=256)
def findings(writer: AvroSchema, reader: AvroSchema) -> Findings:
    """What a comparison of two schemas finds."""
    try:
        return compare(_pairing(writer, reader))
    except UnresolvableSchemasError as error:
        return Findings(problems=[*error.problems])


def read(data: bytes, writer: AvroSchema, reader: AvroSchema) -> object:
    """The value as the reader's schema sees it. Raises EntryError; UnresolvableSchemasError."""
    types = types_of(reader)
    return ToObject(types).of(types.root, read_tree(data, writer, reader))


def write(obj: object, schema: AvroSchema) -> bytes:
    """The bytes of an object: the inverse of `read` with this reader's schema. Raises InvalidEntryError."""
    types = types_of(schema)
    try:
        return _codec(schema).encode(ToTree(types).of(types.root, obj))
    except RecursionError:
        raise InvalidEntryError("the object is nested too deeply") from None


def write_tree(tree: Tree, schema: AvroSchema) -> bytes:
    """The bytes of a tree of this schema."""
    return _codec(schema).encode(tree)


def resolve(data: bytes, writer: AvroSchema, reader: AvroSchema) -> bytes:
    """The value, written with the reader's schema. Raises EntryError; UnresolvableSchemasError."""
    return _codec(reader).encode(read_tree(data, writer, reader))


def read_tree(data: bytes, writer: AvroSchema, reader: AvroSchema) -> Tree:
    """The value by the reader's schema, with the branch of each union. Raises EntryError; UnresolvableSchemasError."""
    check_resolvable(writer, reader)
    run_avro(_checks(writer), data)  # fastavro accepts damaged data, and recurses and allocates as it says
    try:
        tree, size = _codec(writer).decode(data)
    except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise InvalidEntryError(f"the Avro value cannot be read: {error}") from error
    if size != len(data):
        raise InvalidEntryError(f"the Avro value ends at byte {size}, but {len(data) - size} bytes follow")
    pairing = _pairing(writer, reader)
    try:
        return _resolved(pairing, pairing.writer.root, pairing.reader.root, tree)
    except RecursionError:
        raise InvalidEntryError("the Avro value is nested too deeply") from None


@lru_cache(maxsize=256)
def _pairing(writer: AvroSchema, reader: AvroSchema) -> Pairing:
    return pair(types_of(writer), types_of(reader))


@lru_cache(maxsize=256)
def _codec(schema: AvroSchema) -> Codec:
    types = types_of(schema)
    return codec(types, types.root)


@lru_cache(maxsize=256)
def _checks(schema: AvroSchema) -> AvroProgram:
    """A program that checks every part of a value, and changes none."""
    types = types_of(schema)
    return compile_pairing(Pairing(types, types))


def _resolved(pairing: Pairing, old: Type, new: Type, tree: Tree) -> Tree:
    if isinstance(old, Union):
        number, content = branch_of(tree)
        if not isinstance(new, Union) and not pairing.matches(old.branches[number], new):
            _refuse(pairing, old.branches[number])
        return _resolved(pairing, old.branches[number], new, content)
    if isinstance(new, Union):
        branch = pairing.branch(old, new)
        if branch is None:
            _refuse(pairing, old)
        return tagged(new, branch, _resolved(pairing, old, new.branches[branch], tree))
    if isinstance(old, Array) and isinstance(new, Array):
        return [_resolved(pairing, old.items, new.items, item) for item in tree]
    if isinstance(old, Map) and isinstance(new, Map):
        return [{KEY: each[KEY], VALUE: _resolved(pairing, old.values, new.values, each[VALUE])} for each in tree]
    return _resolved_leaf(pairing, old, new, tree)


def _refuse(pairing: Pairing, old: Type) -> NoReturn:
    raise InvalidEntryError(f"a value of {pairing.writer.definition(old)} has no place in the new schema")


def _promoted(old: str, new: str, tree: Tree) -> Tree:
    if old == new:
        return tree
    if new in SIZES:
        number = PACK[old].unpack(tree)[0] if old in SIZES else tree
        return pack_number(new, number)
    if new == "bytes":
        return tree.encode()
    if new == "string":
        try:
            return str(tree, "utf-8")
        except UnicodeDecodeError:
            raise InvalidEntryError("bytes that are to become a string are not UTF-8") from None
    return tree


def _resolved_leaf(pairing: Pairing, old: Type, new: Type, tree: Tree) -> Tree:
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        return _promoted(old.kind, new.kind, tree)
    assert isinstance(old, Named) and isinstance(new, Named)  # the pair was found to be resolvable
    before, after = pairing.writer.named[old.name], pairing.reader.named[new.name]
    if isinstance(before, Enum) and isinstance(after, Enum):
        symbol = pairing.symbols(before, after)[tree]
        if symbol is None:
            raise InvalidEntryError(f"the symbol {before.symbols[tree]} has no place in the new schema")
        return symbol
    if not isinstance(before, Record) or not isinstance(after, Record):
        return tree
    found = {}
    for number, (field, source) in enumerate(zip(after.fields, pairing.fields(before, after), strict=True)):
        if source is None:
            found[slot(number)] = pairing.recall((after.name, field), partial(default_tree, pairing.reader, field))
        else:
            found[slot(number)] = _resolved(pairing, before.fields[source].type, field.type, tree[slot(source)])
    return found
