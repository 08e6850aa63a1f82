"""A field's default: from the JSON in the schema to a tree."""

from __future__ import annotations

import json
from collections.abc import Callable

from formats.avro.fastavro_tree import KEY, VALUE, Tree, slot, tagged
from formats.avro.parsing import Json
from formats.avro.program import PACK
from formats.avro.types import Array, Enum, Field, Fixed, Map, Named, Primitive, Record, Type, Types, Union
from formats.errors import SchemaError


def default_tree(types: Types, field: Field) -> Tree:
    """Raises SchemaError where the default is not of the field's type."""
    if field.default is None:
        raise SchemaError("there is no default")
    return _tree(types, field.type, json.loads(field.default))


def _tree(types: Types, of: Type, found: Json) -> Tree:
    if isinstance(of, Primitive):
        return _primitive(of.kind, found)
    if isinstance(of, Named):
        return _named(types, of, found)
    if isinstance(of, Union):
        return _union(types, of, found)
    if isinstance(of, Array) and isinstance(found, list):
        return [_tree(types, of.items, item) for item in found]
    if isinstance(of, Map) and isinstance(found, dict):
        return [{KEY: key, VALUE: _tree(types, of.values, value)} for key, value in found.items()]
    raise _wrong(of, found)


def _primitive(kind: str, found: Json) -> Tree:
    if kind in PACK and isinstance(found, int | float) and not isinstance(found, bool):
        return _pack(kind, found)
    if kind in ("int", "long") and isinstance(found, int) and not isinstance(found, bool):
        bits = 31 if kind == "int" else 63
        if -(1 << bits) <= found < 1 << bits:
            return found
    elif kind == "bytes" and isinstance(found, str):
        return _octets(kind, found)
    elif kind in PLAIN and PLAIN[kind](found):
        return found
    raise _wrong(kind, found)


def _is_text(found: str) -> bool:
    """Whether UTF-8 can hold it: JSON can name half a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in found)


PLAIN: dict[str, Callable[[Json], bool]] = {
    "null": lambda found: found is None,
    "boolean": lambda found: isinstance(found, bool),
    "string": lambda found: isinstance(found, str) and _is_text(found),
}


def _pack(kind: str, found: float) -> bytes:
    try:
        return PACK[kind].pack(found)
    except OverflowError:
        raise _wrong(kind, found) from None


def _named(types: Types, of: Named, found: Json) -> Tree:
    known = types.named[of.name]
    if isinstance(known, Record) and isinstance(found, dict):
        return {slot(number): _of_field(types, field, found) for number, field in enumerate(known.fields)}
    if isinstance(known, Enum) and found in known.symbols:
        return known.symbols.index(found)
    if isinstance(known, Fixed) and isinstance(found, str) and len(found) == known.size:
        return _octets(known, found)
    raise _wrong(known, found)


def _of_field(types: Types, field: Field, record: dict[str, Json]) -> Tree:
    """A default record may leave out fields that have a default themselves."""
    if field.name in record:
        return _tree(types, field.type, record[field.name])
    if field.default is None:
        raise SchemaError(f"the default lacks the field {field.name}, which has none itself")
    return default_tree(types, field)


def _union(types: Types, of: Union, found: Json) -> Tree:
    """The first branch that it fits; up to Avro 1.11 that had to be the first branch."""
    for number, branch in enumerate(of.branches):
        try:
            return tagged(of, number, _tree(types, branch, found))
        except SchemaError:
            continue
    raise _wrong(of, found)


def _octets(of: object, found: str) -> bytes:
    """Each character of the string is one byte."""
    try:
        return found.encode("latin-1")
    except UnicodeEncodeError:
        raise _wrong(of, found) from None


def _wrong(of: object, found: Json) -> SchemaError:
    return SchemaError(f"the default {json.dumps(found)} is not of the type {of}")
