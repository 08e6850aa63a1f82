"""The columns of rows, their names and their types, by format and serde.

A payload of Avro has the types that Spark's own reader of Avro gives it; all of them may be null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from formats import Format
from formats.avro.resolving import findings
from formats.avro.schema import AvroSchema, types_of
from formats.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Types, Union
from formats.layout import EXPIRY, HEADERS, HISTORY, SEQUENCE, TIMESTAMP, WINDOW_START
from formats.serde import Serde
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.list_serde import ListSerde
from migrate.errors import SpecError, did_you_mean

ERROR = "_error"
"""The column with the reason why a record cannot be decoded."""
TIME = pa.timestamp("us", tz="UTC")
LOCAL_TIME = pa.timestamp("us")
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOST_DIGITS = 38
"""Of a decimal, in Spark, Delta and Arrow's 128 bits."""
_PLAIN = {
    "bytes": pa.binary(),
    "string": pa.string(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "uuid": pa.string(),
    "json": pa.string(),
}
_AVRO = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIME,
    ("long", "timestamp-micros"): TIME,
    ("long", "local-timestamp-millis"): LOCAL_TIME,
    ("long", "local-timestamp-micros"): LOCAL_TIME,
}
_WIDER = {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}
"""What a union of two numbers is, as for Spark."""


def row_schema(known: Format, key: Serde, value: Serde, columns: Sequence[str] = ()) -> pa.Schema:
    """The chosen columns of a format's rows, in the chosen order; none chosen: all.

    Raises SpecError for a column that is not there, and for an Avro schema whose values no column holds.
    """
    fields = {field.name: field for field in _fields(known, key, value)}
    if unknown := next((name for name in columns if name not in fields), None):
        near = did_you_mean(unknown, fields, f"choose of {', '.join(fields)}")
        raise SpecError(f"the rows of {known.id} have no column {unknown!r}", hint=near)
    if twice := next((name for at, name in enumerate(columns) if name in columns[:at]), None):
        raise SpecError(f"the column {twice!r} is chosen twice", hint="name it once")
    return pa.schema([fields[name] for name in columns] or [*fields.values()])


def _fields(known: Format, key: Serde, value: Serde) -> Iterable[pa.Field]:
    carries = known.carries
    yield pa.field("task", pa.string(), nullable=False)
    yield pa.field("partition", pa.int32())
    if known.column_families is None:
        yield pa.field("family", pa.string(), nullable=False)
    yield pa.field("key", payload_type(key))
    yield pa.field("value", payload_type(value))
    if HISTORY in carries:
        yield from (pa.field(name, TIME) for name in ("valid_from", "valid_to"))
    elif TIMESTAMP in carries:
        yield pa.field("timestamp", TIME)
    if HEADERS in carries:
        yield pa.field("headers", HEADERS_TYPE)
    if WINDOW_START in carries:
        yield from (pa.field(name, TIME) for name in ("window_start", "window_end"))
    if SEQUENCE in carries:
        yield pa.field("sequence", pa.int32())
    if EXPIRY in carries:
        yield pa.field("expires", TIME)


def payload_type(serde: Serde) -> pa.DataType:
    """The type of a column of payloads. Raises SpecError for an Avro schema whose values no column holds."""
    if isinstance(serde, AvroSerde):
        types = types_of(reader_of(serde))
        if recursive := types.recursive():
            raise SpecError(
                f"the Avro type {min(recursive)} holds values of its own type, which no column can",
                hint="read it as bytes: leave the serde out",
            )
        return avro_type(types, types.root)
    if isinstance(serde, ListSerde):
        return pa.list_(payload_type(serde.inner))
    return _PLAIN[serde.name]


def reader_of(serde: AvroSerde) -> AvroSchema:
    """The schema that values are resolved to: the last one named. Raises SpecError where another cannot be read so."""
    reader = serde.reader or serde.schemas[-1][1]
    for schema_id, writer in serde.schemas:
        if problems := findings(writer, reader).problems:
            raise SpecError(
                f"values of the schema {schema_id} cannot be read by the last schema named: {problems[0]}",
                hint="leave that schema out (ids = [...], schemas = ...), or read the payload as bytes",
            )
    return reader


def avro_type(types: Types, of: Type) -> pa.DataType:
    """The type of a column of values of one Avro type, which is not recursive."""
    known = types.definition(of)
    if isinstance(known, Primitive | Fixed):
        return logical_type(known) or (_AVRO[known.kind] if isinstance(known, Primitive) else pa.binary())
    if isinstance(known, Array):
        return pa.list_(avro_type(types, known.items))
    if isinstance(known, Map):
        return pa.map_(pa.string(), avro_type(types, known.values))
    if isinstance(known, Record):
        return pa.struct([pa.field(field.name, avro_type(types, field.type)) for field in known.fields])
    return pa.string() if isinstance(known, Enum) else _union_type(types, known)


def _union_type(types: Types, union: Union) -> pa.DataType:
    members = union_members(union)
    if len(members) < 2:
        return avro_type(types, union.branches[members[0]]) if members else pa.null()
    return wider_type(union) or pa.struct(
        [pa.field(member_name(at), avro_type(types, union.branches[branch])) for at, branch in enumerate(members)]
    )


def union_members(union: Union) -> list[int]:
    """The numbers of a union's branches, without null."""
    return [number for number, branch in enumerate(union.branches) if not _is_null(branch)]


def member_name(number: int) -> str:
    """The name of the column of a union's branch, null not counted, as Spark has it."""
    return f"member{number}"


def wider_type(union: Union) -> pa.DataType | None:
    """The one type of a union of two numbers; None: it is another union."""
    branches = [union.branches[number] for number in union_members(union)]
    kinds = [each.kind for each in branches if isinstance(each, Primitive)]
    return _WIDER.get(frozenset(kinds)) if len(kinds) == len(branches) == 2 else None


def _is_null(of: Type) -> bool:
    return isinstance(of, Primitive) and of.kind == "null"


def logical_type(of: Primitive | Fixed) -> pa.DataType | None:
    """The type of a column that means more than the bytes; None: nothing that a column could have."""
    kind = of.kind if isinstance(of, Primitive) else "fixed"
    logical = of.logical
    if logical is None:
        return None
    if logical.name == "decimal" and kind in ("bytes", "fixed"):
        scale = logical.scale
        fits = isinstance(scale, int) and 0 <= scale <= logical.precision and 0 < logical.precision <= MOST_DIGITS
        return pa.decimal128(logical.precision, scale) if fits else None
    return _LOGICAL.get((kind, logical.name))
