"""Columns as payloads, by serde: the inverse of `payload_columns`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from formats.avro.fastavro_tree import KEY, VALUE, Tree, primitive_tree, slot, tagged
from formats.avro.resolving import write_tree
from formats.avro.schema import types_of
from formats.avro.types import Array, Definition, Enum, Fixed, Map, Primitive, Record, Type, Types, Union
from formats.encoding.headers import Headers, pack_sized
from formats.errors import InvalidEntryError
from formats.serde import Serde, uses_headers
from formats.serdes.avro_frame import pack_frame
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.numeric import NumberSerde
from migrate.engine.rows.arrays import of_bytes, of_numpy
from migrate.engine.rows.payload_columns import tried
from migrate.engine.rows.row_types import logical_type, member_name, union_members, wider_type
from migrate.engine.rows.row_values import arrow_serde

Encoded = tuple[pa.Array, dict[int, str]]
"""An array of binary, empty where the value is null or cannot be written; and the reasons by position."""
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_NO_HEADERS = pack_sized(Headers())


def payload_bytes(serde: Serde, column: pa.Array) -> Encoded:
    """The payloads of a column of the serde's `payload_type`."""
    if isinstance(serde, NumberSerde):
        return of_words(words_of(column), "<" if serde.endian == "little" else ">"), {}
    if serde.name == "boolean":
        return of_words(words_of(column.cast(pa.uint8())), "<"), {}
    if isinstance(serde, AvroSerde):
        return _each(_avro(serde), column.view(_raw_type(column.type)).to_pylist())
    if serde.name == "list":
        return _each(arrow_serde(serde).encode, column.to_pylist())
    return pc.fill_null(column.cast(pa.binary()), b""), _not_of(serde, column)


def _not_of(serde: Serde, column: pa.Array) -> dict[int, str]:
    """Which texts are none of the serde."""
    if serde.name == "json":
        texts = column.to_pylist()
        return tried(texts, lambda text: None if text is None else serde.decode(text.encode()))[1]
    if serde.name != "uuid":
        return {}
    wrong = pc.fill_null(pc.invert(pc.match_substring_regex(column, _UUID)), False)
    rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
    return {int(row): f"{column[row]} is not the text of a UUID in lower case" for row in rows}


def headers_bytes(column: pa.Array, serdes: Iterable[Serde]) -> Encoded:
    """The headers of each row behind their size; with those in which these serdes name schemas."""
    known: dict[tuple[tuple[str, bytes | None], ...], bytes] = {}
    naming = [serde for serde in serdes if uses_headers(serde)]

    def encode(found: list[dict[str, Any]] | None) -> bytes:
        pairs = tuple((each["key"], each["value"]) for each in found or ())
        if pairs not in known:
            if any(name is None for name, _ in pairs):
                raise InvalidEntryError("a header has no name")
            headers: Headers | None = Headers.of(pairs)
            for serde in naming:
                headers = serde.with_headers(headers)
            assert headers is not None
            known[pairs] = pack_sized(headers)
        return known[pairs]

    if not naming and not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return of_bytes([_NO_HEADERS] * len(column), pa.binary()), {}
    return _each(encode, ([] if found is None else found for found in column.to_pylist()))


def words_of(column: pa.Array) -> npt.NDArray[Any]:
    """The values of a column of numbers, zero where they are null."""
    filled = pc.fill_null(column, pa.scalar(0, column.type)) if column.null_count else column
    data = np.frombuffer(filled.buffers()[1], column.type.to_pandas_dtype(), len(filled) + filled.offset)
    return data[filled.offset :]


def of_words(words: npt.NDArray[Any], order: Literal["<", ">"]) -> pa.Array:
    """Numbers as bytes in this order: "<" or ">"."""
    data = np.ascontiguousarray(words).astype(words.dtype.newbyteorder(order))
    fixed = of_numpy(data.view(f"V{data.itemsize}"), pa.binary(data.itemsize))
    return fixed.cast(pa.binary())


def _avro(serde: AvroSerde) -> Callable[[Any], bytes]:
    schema_id, schema = serde.written
    types, head = types_of(schema), pack_frame(serde.frame, schema_id)
    return lambda found: head + write_tree(_tree_of(types, types.root, found, serde.part), schema)


def _each(encode: Callable[[Any], bytes], values: Iterable[Any]) -> Encoded:
    """What a function makes of each value that is not null; why not, where it raises."""
    found, reasons = tried(values, lambda value: None if value is None else encode(value))
    return pc.fill_null(of_bytes(found, pa.binary()), b""), reasons


def _raw_type(kind: pa.DataType) -> pa.DataType:
    """A type with the same buffers, whose values become Python's numbers and bytes: `pyarrow.Array.view` takes it."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_decimal(kind):
        return pa.binary(16)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _raw_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _raw_type(kind.item_type))
    return pa.list_(_raw_type(kind.value_type)) if pa.types.is_list(kind) else kind


def _tree_of(types: Types, of: Type, found: Any, where: str) -> Tree:  # noqa: ANN401 - as Arrow has it
    """The tree of a value of a column of `_raw_type`. Raises InvalidEntryError, which says `where` it is none."""
    known = types.definition(of)
    if isinstance(known, Union):
        return _branch(types, known, found, where)
    if found is None and known != Primitive("null"):
        raise InvalidEntryError(f"{where} is null, and its schema says {known}")
    if isinstance(known, Array):
        return [_tree_of(types, known.items, item, f"{where}[{at}]") for at, item in enumerate(found)]
    if isinstance(known, Map):
        return [
            {KEY: _leaf(Primitive("string"), key, where), VALUE: _tree_of(types, known.values, each, f"{where}.{key}")}
            for key, each in found
        ]
    if isinstance(known, Record):
        return {
            slot(number): _tree_of(types, field.type, found[field.name], f"{where}.{field.name}")
            for number, field in enumerate(known.fields)
        }
    return _leaf(known, found, where)


def _branch(types: Types, of: Union, found: Any, where: str) -> Tree:  # noqa: ANN401
    """The tree in the branch that the value belongs to; of two numbers, in the first that holds it."""
    members = union_members(of)
    if found is None:
        null = next((number for number in range(len(of.branches)) if number not in members), None)
        if null is None:
            raise InvalidEntryError(f"{where} is null, and its schema says {of}")
        return tagged(of, null, None)
    if wider_type(of) is not None:
        kinds = {number: str(of.branches[number]) for number in members}
        number = next((number for number, kind in kinds.items() if _holds(kind, found)), members[-1])
    elif len(members) == 1:
        number = members[0]
    else:
        given = [at for at in range(len(members)) if found[member_name(at)] is not None]
        if len(given) != 1:
            raise InvalidEntryError(f"{where}: of a union one member has a value, and here {len(given)} have")
        number, found = members[given[0]], found[member_name(given[0])]
    return tagged(of, number, _tree_of(types, of.branches[number], found, where))


def _holds(kind: str, found: float) -> bool:
    if kind == "int":
        return -(1 << 31) <= found < 1 << 31
    return kind != "float" or math.isnan(found) or float(np.float32(found)) == found


def _leaf(known: Primitive | Definition, found: Any, where: str) -> Tree:  # noqa: ANN401
    try:
        if isinstance(known, Enum):
            return known.symbols.index(found)
        assert isinstance(known, Primitive | Fixed)
        if known.logical is not None and logical_type(known) is not None:
            found = _stored(known, found, where)
        if isinstance(known, Primitive):
            return primitive_tree(known.kind, found)
    except (ValueError, OverflowError):
        raise _wrong(where, found, known) from None
    if len(found) != known.size:
        raise _wrong(where, found, known)
    return found


def _wrong(where: str, found: object, known: Primitive | Definition) -> InvalidEntryError:
    return InvalidEntryError(f"{where} is {found!r}, which is no value of {known}")


def _stored(known: Primitive | Fixed, found: Any, where: str) -> Any:  # noqa: ANN401
    """What lies beneath a logical type."""
    assert known.logical is not None
    if known.logical.name == "decimal":
        number = int.from_bytes(found, "little", signed=True)
        size = known.size if isinstance(known, Fixed) else (number if number >= 0 else ~number).bit_length() // 8 + 1
        return number.to_bytes(size, "big", signed=True)
    if known.logical.name.endswith("-millis"):
        return _whole_millis(found, where)
    return found


def _whole_millis(micros: int, where: str) -> int:
    """The milliseconds of a time. Raises InvalidEntryError where it has a part of one."""
    if micros % 1000:
        raise InvalidEntryError(f"{where} is a time with {micros % 1000} microseconds, where milliseconds are stored")
    return micros // 1000
