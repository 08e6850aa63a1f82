"""From a schema's JSON text to its types. Errors say what is wrong, and where."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from formats.avro.types import (
    Array,
    AvroField,
    Definition,
    Enum,
    Fixed,
    Logical,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Types,
    Union,
)
from formats.errors import SchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

LOGICAL = {
    *("decimal", "uuid", "date", "time-millis", "time-micros", "duration"),
    *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
}
"""The logical types that the specification defines; Avro ignores all others."""

MAX_NESTING = 64
MAX_BRANCHES = 1000
"""Of a union: each of the old one's is held against each of the new one's."""
TOO_DEEP = f"the schema's types are nested more than {MAX_NESTING} deep"

Json = Any

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*+")|/\*.*?\*/|//[^\r\n]*', re.DOTALL)
_NUMBER = re.compile(r"NaN|[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


def load_json(text: str) -> Json:
    """A schema's JSON, which may hold comments as Java's parser allows them. Raises ValueError; RecursionError."""
    # Spaces stand for a comment, so that errors keep their position.
    return json.loads(_COMMENT.sub(lambda found: found[1] or re.sub(r"[^\r\n]", " ", found[0]), text))


def parse(text: str) -> Types:
    """The types of a schema. Raises SchemaError."""
    try:
        found = load_json(text)
    except ValueError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None
    except RecursionError:
        raise SchemaError(TOO_DEEP) from None
    parser = _Parser()
    return Types(parser.type_of(found, "", "schema"), parser.named)


@dataclass(slots=True)
class _Parser:
    named: dict[str, Definition] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    """Names whose definition is being read."""
    unions: int = 0
    depth: int = 0

    def type_of(self, found: Json, space: str, where: str) -> Type:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise SchemaError(TOO_DEEP)
        of = self._type_of(found, space, where)
        self.depth -= 1
        return of

    def _type_of(self, found: Json, space: str, where: str) -> Type:
        if isinstance(found, str):
            return self._by_name(found, space, where)
        if isinstance(found, list):
            return self._union(found, space, where)
        if not isinstance(found, dict):
            raise SchemaError(f"{where}: {json.dumps(found)} is not a type")
        kind = found.get("type")
        if isinstance(kind, dict | list):
            return _labelled(self.type_of(kind, space, where), found)
        if not isinstance(kind, str):
            raise SchemaError(f'{where}: a type without a "type"')
        return self._complex(kind, found, space, where)

    def _complex(self, kind: str, found: dict[str, Json], space: str, where: str) -> Type:
        if kind in PRIMITIVES:
            return Primitive(kind, _logical(found))
        if kind == "array":
            return Array(self.type_of(_needed(found, "items", where), space, f"{where}[]"))
        if kind == "map":
            return Map(self.type_of(_needed(found, "values", where), space, f"{where}{{}}"))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(kind, found, space, where)
        return self._by_name(kind, space, where)

    def _by_name(self, name: str, space: str, where: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        for full in (_full(name, space), name):  # a name of the null namespace may be meant
            if full in self.named or full in self.open:
                return Named(full)
        raise SchemaError(f"{where}: unknown type {name!r}")

    def _union(self, found: list[Json], space: str, where: str) -> Union:
        if len(found) > MAX_BRANCHES:
            raise SchemaError(f"{where}: a union with {len(found):,} branches; at most {MAX_BRANCHES:,} are possible")
        number = self.unions
        self.unions += 1
        branches = tuple(self.type_of(branch, space, where) for branch in found)
        names = [branch_name(branch) for branch in branches]
        if "union" in names:
            raise SchemaError(f"{where}: a union directly within a union")
        if (twice := first_twice(names)) is not None:
            raise SchemaError(f"{where}: a union with {twice} twice")
        if not branches:
            raise SchemaError(f"{where}: a union without branches")
        return Union(number, branches)

    def _named(self, kind: str, found: dict[str, Json], space: str, where: str) -> Named:
        name = _name(found, where)
        own_space = found.get("namespace")
        full = _full(name, own_space if isinstance(own_space, str) else space)
        if full in self.named or full in self.open:
            raise SchemaError(f"{where}: {full} is defined twice")
        space = full.rpartition(".")[0]
        aliases = tuple(_full(alias, space) for alias in _names(found, "aliases", where))
        self.open.add(full)
        if kind == "enum":
            self.named[full] = _enum(full, aliases, found, where)
        elif kind == "fixed":
            self.named[full] = _fixed(full, aliases, found, where)
        else:
            where = full.rpartition(".")[2] if where == "schema" else where
            self.named[full] = Record(full, aliases, self._fields(found, space, where))
        self.open.discard(full)
        return Named(full)

    def _fields(self, record: dict[str, Json], space: str, where: str) -> tuple[AvroField, ...]:
        found = _needed(record, "fields", where)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise SchemaError(f'{where}: "fields" is not a list of fields')
        fields = tuple(self._field(each, space, where) for each in found)
        names = [each.name for each in fields]
        if (twice := first_twice(names)) is not None:
            raise SchemaError(f"{where}: two fields with the name {twice}")
        return fields

    def _field(self, found: dict[str, Json], space: str, where: str) -> AvroField:
        name = _name(found, f"{where}: a field")
        where = f"{where}.{name}"
        of = _labelled(self.type_of(_needed(found, "type", where), space, where), found)
        default = json.dumps(_default(of, found["default"])) if "default" in found else None
        return AvroField(name, of, _names(found, "aliases", where), default)


def _default(of: Type, found: Json) -> Json:
    """A default, where a string may stand for a number that JSON lacks, as in Java: only for a field's own type."""
    is_number = isinstance(of, Primitive) and of.kind in ("float", "double")
    return float(found) if is_number and isinstance(found, str) and _NUMBER.fullmatch(found.strip()) else found


def first_twice(names: Sequence[str]) -> str | None:
    """The first of the names that is there twice."""
    counts = Counter(names) if len(set(names)) < len(names) else {}
    return next((name for name in counts if counts[name] > 1), None)


def branch_name(branch: Type) -> str:
    """The name of a branch, unique in its union."""
    if isinstance(branch, Primitive):
        return branch.kind
    return branch.name if isinstance(branch, Named) else type(branch).__name__.lower()


def _enum(full: str, aliases: tuple[str, ...], found: dict[str, Json], where: str) -> Enum:
    symbols = _names(found, "symbols", where)
    default = found.get("default")
    if not symbols or len(set(symbols)) < len(symbols):
        raise SchemaError(f"{where}: the enum {full} has {'a symbol twice' if symbols else 'no symbols'}")
    if default is not None and default not in symbols:
        raise SchemaError(f"{where}: the default {json.dumps(default)} is not a symbol of {full}")
    return Enum(full, aliases, symbols, default)


def _fixed(full: str, aliases: tuple[str, ...], found: dict[str, Json], where: str) -> Fixed:
    size = _needed(found, "size", where)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SchemaError(f"{where}: {json.dumps(size)} is not the size of a fixed")
    return Fixed(full, aliases, size, _logical(found))


def _logical(found: dict[str, Json]) -> Logical | None:
    """What a schema says of the meaning of bytes, even where readers ignore it: an invalid type, or precision."""
    is_of_connect = found.get("connect.name") == "org.apache.kafka.connect.data.Decimal"
    name = "decimal" if is_of_connect else found.get("logicalType")
    if not isinstance(name, str) or name not in LOGICAL:
        return None
    if name != "decimal":
        return Logical(name)
    beside = found.get("connect.parameters")
    of_connect = _whole(beside["scale"]) if isinstance(beside, dict) and "scale" in beside else None
    scale = _whole(found["scale"]) if "scale" in found else of_connect or 0
    precision = _whole(found.get("precision"))
    return Logical(name, precision if isinstance(precision, int) else 0, scale, of_connect)


def _whole(found: Json) -> int | str:
    """A number, which Connect writes as text; the JSON of anything else."""
    try:
        return int(str(found))
    except ValueError:
        return json.dumps(found)


def _labelled(of: Type, found: dict[str, Json]) -> Type:
    """The type with what stands beside it instead of in it, where the specification does not look."""
    if isinstance(of, Union):
        return replace(of, branches=tuple(_labelled(branch, found) for branch in of.branches))
    if isinstance(of, Primitive) and of.logical is None and of.kind != "null":
        return replace(of, logical=_logical(found))
    return of


def _needed(found: dict[str, Json], key: str, where: str) -> Json:
    if key not in found:
        raise SchemaError(f'{where}: "{key}" is missing')
    return found[key]


def _name(found: dict[str, Json], where: str) -> str:
    name = _needed(found, "name", where)
    if not isinstance(name, str) or not name:  # any text, as Python's writers take it: no byte depends on it
        raise SchemaError(f"{where}: {json.dumps(name)} is not a name")
    return name


def _names(found: dict[str, Json], key: str, where: str) -> tuple[str, ...]:
    names = found.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f'{where}: "{key}" is not a list of names')
    return tuple(names)


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name
