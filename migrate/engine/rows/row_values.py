"""Payloads one by one, as Arrow takes them: the reference, and what has the reason for one that is not valid."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from formats.avro.binary import PACK
from formats.avro.fastavro_tree import KEY, VALUE, Tree, branch_of, slot
from formats.avro.resolving import read_tree
from formats.avro.schema import AvroSchema, types_of
from formats.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Types, Union
from formats.errors import InvalidEntryError
from formats.serde import Serde
from formats.serdes.avro_frame import SchemaId
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.text import StringSerde, UuidSerde
from migrate.engine.rows.row_types import logical_type, member_name, reader_of, union_members, wider_type

MOST_MILLIS = ((1 << 63) - 1) // 1000
"""The latest time in milliseconds that microseconds of 64 bits hold; the earliest is as far away."""
TOO_FAR = "is out of the range of a timestamp in microseconds"


def arrow_serde(serde: Serde) -> Serde:
    """A serde of the same payloads that decodes them to what `pyarrow.array` takes for the type of `payload_type`."""
    if isinstance(serde, AvroSerde):
        return AvroRows(serde.schemas, serde.frame, serde.part, reader_of(serde))
    if isinstance(serde, ListSerde):
        return ListSerde(arrow_serde(serde.inner))
    if serde.name == "uuid":
        return UuidText()
    return StringSerde() if serde.name == "json" else serde


@dataclass(frozen=True)
class AvroRows(AvroSerde):
    """Avro payloads as Arrow takes them, resolved to one schema."""

    def read_value(self, schema_id: SchemaId, schema: AvroSchema, data: bytes) -> object:
        assert self.reader is not None
        types = types_of(self.reader)
        return arrow_value(types, types.root, read_tree(data, schema, self.reader))


@dataclass(frozen=True, slots=True)
class UuidText:
    """UUIDs as their text."""

    name: str = "uuid"

    def decode(self, payload: bytes) -> str:
        return str(UuidSerde().decode(payload))

    def encode(self, payload: str) -> bytes:
        try:
            return UuidSerde().encode(UUID(payload))
        except ValueError as error:
            raise InvalidEntryError(f"{payload!r} is not the text of a UUID") from error


def arrow_value(types: Types, of: Type, tree: Tree) -> object:
    """A tree as `pyarrow.array` takes it for its `avro_type`. Raises InvalidEntryError where no column has it."""
    known = types.definition(of)
    if isinstance(known, Primitive | Fixed):
        return _leaf(known, tree)
    if isinstance(known, Enum):
        return known.symbols[tree]
    if isinstance(known, Array):
        return [arrow_value(types, known.items, item) for item in tree]
    if isinstance(known, Map):
        if len({item[KEY] for item in tree}) < len(tree):
            raise InvalidEntryError("a map holds a key twice")
        return [(item[KEY], arrow_value(types, known.values, item[VALUE])) for item in tree]
    if isinstance(known, Record):
        fields = enumerate(known.fields)
        return {field.name: arrow_value(types, field.type, tree[slot(number)]) for number, field in fields}
    return _member(types, known, *branch_of(tree))


def _member(types: Types, of: Union, branch: int, tree: Tree) -> object:
    members = union_members(of)
    if branch not in members:
        return None
    if wider_type(of) is not None:
        return PACK[kind].unpack(tree)[0] if (kind := str(of.branches[branch])) in PACK else tree
    value = arrow_value(types, of.branches[branch], tree)
    return value if len(members) == 1 else {member_name(members.index(branch)): value}


def _leaf(known: Primitive | Fixed, tree: Tree) -> object:
    logical = known.logical
    if logical is None or logical_type(known) is None:
        return PACK[known.kind].unpack(tree)[0] if isinstance(known, Primitive) and known.kind in PACK else tree
    if logical.name == "decimal":
        assert isinstance(logical.scale, int)
        number = int.from_bytes(tree, "big", signed=True)
        if not tree or abs(number) >= 10**logical.precision:
            what = f"{number}, without its point," if tree else "a decimal without bytes"
            raise InvalidEntryError(f"{what} is no decimal of {logical.precision} digits")
        return Decimal(number).scaleb(-logical.scale)
    if not logical.name.endswith("-millis"):
        return tree
    if abs(tree) > MOST_MILLIS:
        raise InvalidEntryError(f"the time {tree} ms {TOO_FAR}")
    return tree * 1000
