"""A field's default, from the schema's JSON to a tree."""

from __future__ import annotations

import json

from formats.avro.fastavro_tree import KEY, VALUE, Tree, primitive_tree, slot, tagged
from formats.avro.parsing import Json
from formats.avro.types import Array, AvroField, Enum, Fixed, Map, Named, Primitive, Record, Type, Types, Union
from formats.errors import SchemaError


def default_tree(types: Types, field: AvroField) -> Tree:
    """The tree of a field's default. Raises SchemaError where it is not of the field's type, or missing."""
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
    if kind == "bytes" and isinstance(found, str):
        return _octets(kind, found)
    try:
        return primitive_tree(kind, found)
    except ValueError:
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


def _of_field(types: Types, field: AvroField, record: dict[str, Json]) -> Tree:
    """The tree of a field in a default record, which may leave out fields with defaults of their own."""
    if field.name in record:
        return _tree(types, field.type, record[field.name])
    if field.default is None:
        raise SchemaError(f"the default lacks the field {field.name}, which has none itself")
    return default_tree(types, field)


def _union(types: Types, of: Union, found: Json) -> Tree:
    """The tree in the first branch that fits; up to Avro 1.11 only the first branch could."""
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
