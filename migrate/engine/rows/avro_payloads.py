"""Avro payloads in their frames as columns: those of one schema together, resolved to the schema of the column."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from formats.avro.compiling import compile_schemas
from formats.avro.schema import AvroSchema, types_of
from formats.errors import EntryError
from formats.serdes.avro_frame import APICURIO_PREFIX, GLUE_SIZE, PREFIX, Frame, unframe
from formats.serdes.avro_serde import AvroSerde
from migrate.engine.avro.function import Column, generate_column
from migrate.engine.rows.arrays import Mask, Rows, distinct, of_numpy
from migrate.engine.rows.avro_columns import read_columns
from migrate.engine.rows.spans import Spans

_SIZES: dict[Frame, int] = {
    "none": 0,
    "confluent": PREFIX.size,
    "header": PREFIX.size,
    "apicurio": APICURIO_PREFIX.size,
    "glue": GLUE_SIZE,
}
"""Of frames in payloads."""


def read_payloads(serde: AvroSerde, reader: AvroSchema, payloads: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """(the column, which payloads are for the reference to decode); `kind`: the type for the reader's schema."""
    size, count = _SIZES[serde.frame], len(payloads)
    arrays, rows = [pa.nulls(1, kind)], [np.zeros(0, np.intp)]
    marked = np.ones(count, np.bool_)
    for schema, own in _by_schema(serde, payloads, size):
        part = payloads.some(own)
        array, marked[own] = _read_as(reader, schema, Spans(part.data, part.starts + size, part.ends), kind)
        if len(own) == count:
            return array, marked
        arrays.append(array)
        rows.append(own)
    places, found = np.zeros(count, np.intp), np.concatenate(rows)
    places[found] = 1 + np.arange(len(found))
    return pa.concat_arrays(arrays).take(of_numpy(places)), marked


def _by_schema(serde: AvroSerde, payloads: Spans, size: int) -> Iterator[tuple[AvroSchema, Rows]]:
    """(a schema that payloads name, the numbers of those payloads); none of what the serde cannot read."""
    ends = np.minimum(payloads.starts + size, payloads.ends)
    heads, numbers = distinct(Spans(payloads.data, payloads.starts, ends).binary(pa.binary()))
    known = dict(serde.schemas)
    for number, head in enumerate(heads.to_pylist()):
        try:
            schema = known.get(unframe(serde.frame, serde.part, head, None)[0])
        except EntryError:
            continue
        if schema is not None:
            yield schema, np.flatnonzero(numbers == number)


def _read_as(reader: AvroSchema, writer: AvroSchema, values: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    if writer != reader:
        try:
            resolved = _resolving(writer, reader)([*values])
        except EntryError:
            return pa.nulls(len(values), kind), np.ones(len(values), np.bool_)
        values = Spans.of(b"".join(resolved), np.fromiter(map(len, resolved), np.int64, len(resolved)))
    return read_columns(types_of(reader), values, kind)


@lru_cache(maxsize=64)
def _resolving(writer: AvroSchema, reader: AvroSchema) -> Column:
    return generate_column(compile_schemas(writer, reader))
