"""Trees: values as fastavro reads and writes them, with nothing left for it to guess.

fastavro chooses a union's branch by the value, and turns floats into doubles and maps into dicts. It therefore gets a
marked schema with the same encoding: each branch of a union is a record of one field, which fastavro names when it
reads and lets us name when it writes; a float is a fixed of 4 bytes, a double one of 8; a map is an array of entries;
an enum is the number of its symbol. What it reads and writes by a marked schema is called a tree.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import fastavro

from formats.avro.binary import PACK
from formats.avro.types import Array, Definition, Enum, Fixed, Map, Named, Primitive, Type, Types, Union

Tree = Any
Marked = Any  # fastavro's own word for it is a dict, a list or a str of anything
KEY, VALUE = "k", "v"
SIZES = {"float": 4, "double": 8}


def tag(union: Union, branch: int) -> str:
    """The name of a branch in the marked schema."""
    return f"union{union.number}_{branch}"


def branch_of(tree: Tree) -> tuple[int, Tree]:
    """(number of the branch, the value in it) of a union's tree."""
    name, content = tree
    return int(name.rpartition("_")[2]), content[VALUE]


def is_empty(tree: Tree) -> bool:
    """Whether a value is null, or an empty text, array or map."""
    found = branch_of(tree)[1] if isinstance(tree, tuple) else tree
    return found is None or (isinstance(found, str | bytes | list) and not found)


def tagged(union: Union, branch: int, content: Tree) -> Tree:
    """The tree of a union: the inverse of `branch_of`."""
    return tag(union, branch), {VALUE: content}


def slot(number: int) -> str:
    """The name of a record's field in the marked schema."""
    return f"field{number}"


def primitive_tree(kind: str, value: object) -> Tree:
    """The tree of a primitive value. Raises ValueError where the value is not of that kind."""
    if kind in PACK and isinstance(value, float | int) and not isinstance(value, bool):
        try:
            return PACK[kind].pack(value)
        except OverflowError as error:
            raise ValueError(value) from error
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    elif kind == "string":  # Python and JSON can hold half a surrogate pair, UTF-8 cannot
        fits = isinstance(value, str) and (value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value))
    else:
        fits = isinstance(value, {"null": type(None), "boolean": bool, "bytes": bytes}.get(kind, ()))
    if not fits:
        raise ValueError(value)
    return value


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads and writes trees of one type."""

    marked: Marked

    def decode(self, data: bytes) -> tuple[Tree, int]:
        """(the tree, how many bytes it takes). Raises what fastavro raises."""
        source = io.BytesIO(data)
        tree = fastavro.schemaless_reader(source, self.marked, None, return_named_type=True)
        return tree, source.tell()

    def encode(self, tree: Tree) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.marked, tree)
        return out.getvalue()


def codec(types: Types, root: Type) -> Codec:
    """The codec for values of the type `root`."""
    return Codec(fastavro.parse_schema(_Marking(types).mark(root)))


@dataclass(slots=True)
class _Marking:
    types: Types
    defined: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    """Of types, by their own."""

    def mark(self, found: Type) -> Marked:
        if isinstance(found, Primitive):
            return self._fixed(found.kind, SIZES[found.kind]) if found.kind in SIZES else found.kind
        if isinstance(found, Array):
            return {"type": "array", "items": self.mark(found.items)}
        if isinstance(found, Map):
            entry: dict[str, Type] = {KEY: Primitive("string"), VALUE: found.values}
            return {"type": "array", "items": self._record(f"entry{len(self.defined)}", entry)}
        if isinstance(found, Union):
            return [self._record(tag(found, number), {VALUE: each}) for number, each in enumerate(found.branches)]
        return self._named(found, self.types.named[found.name])

    def _named(self, found: Named, known: Definition) -> Marked:
        if isinstance(known, Enum):
            return "int"
        name = self.names.setdefault(found.name, f"named{len(self.names)}")
        if isinstance(known, Fixed):
            return self._fixed(name, known.size)
        return self._record(name, {slot(number): each.type for number, each in enumerate(known.fields)})

    def _record(self, name: str, fields: dict[str, Type]) -> Marked:
        if name in self.defined:
            return name
        self.defined.add(name)
        marked = [{"name": field, "type": self.mark(of)} for field, of in fields.items()]
        return {"type": "record", "name": name, "fields": marked}

    def _fixed(self, name: str, size: int) -> Marked:
        name = f"{name}_bytes"
        if name in self.defined:
            return name
        self.defined.add(name)
        return {"type": "fixed", "name": name, "size": size}
