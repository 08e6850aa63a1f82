"""Byte operations that change Avro payloads from one schema, or several, to another."""

from __future__ import annotations

from formats.avro.compiling import compile_schemas
from formats.avro.program import AvroProgram
from formats.avro.schema import AvroSchema
from formats.errors import UnresolvableSchemasError
from formats.program import Avro, Choose, Insert, Operation
from formats.serdes.avro_frame import pack_prefix
from formats.serdes.avro_serde import AvroSerde


def compile_avro(source: AvroSerde, target: AvroSerde) -> tuple[Operation, ...] | None:
    """A program for each schema that may have written a payload; None where one of them has none.

    Headers are no part of a payload: where one names the schema, only the reference path sees it.
    """
    if "header" in (source.frame, target.frame):
        return None
    schema_id, reader = target.written
    head = (Insert(pack_prefix(schema_id)),) if target.frame == "confluent" and isinstance(schema_id, int) else ()
    cases: list[tuple[bytes, tuple[Operation, ...]]] = []
    for written_id, writer in source.schemas:
        program = _program(writer, reader)
        if program is None:
            return None
        prefix = pack_prefix(written_id) if isinstance(written_id, int) else b""
        cases.append((prefix, (*head, Avro(program))))
    return cases[0][1] if source.frame == "none" else (Choose(tuple(cases)),)


def _program(writer: AvroSchema, reader: AvroSchema) -> AvroProgram | None:
    try:
        return compile_schemas(writer, reader)
    except UnresolvableSchemasError:
        return None
