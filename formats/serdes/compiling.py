"""Byte operations that change a payload from one serde to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import UnresolvableSchemasError
from formats.program import IDENTITY, Avro, Choose, Copy, Insert, Operation, Reverse
from formats.serde import BytesSerde, Serde
from formats.serdes.avro_frame import pack_frame
from formats.serdes.numeric import NumberSerde

if TYPE_CHECKING:
    from formats.serdes.avro_serde import AvroSerde


def compile_serdes(source: Serde, target: Serde) -> tuple[Operation, ...] | None:
    """The operations for a payload; None where only the reference path serves.

    The operations must reject what the reference path rejects, so text, UUIDs and JSON, which it checks, have none.
    """
    if isinstance(source, BytesSerde) and isinstance(target, BytesSerde):
        return IDENTITY
    if isinstance(source, NumberSerde) and isinstance(target, NumberSerde):
        if source.name != target.name or source.name == "float":  # a signalling NaN is rejected
            return None
        return (Copy(source.size),) if source.endian == target.endian else (Reverse(source.size),)
    if source.name == target.name == "avro":
        from formats.serdes.avro_serde import AvroSerde

        assert isinstance(source, AvroSerde)
        assert isinstance(target, AvroSerde)
        return _compile_avro(source, target)
    return None


def _compile_avro(source: AvroSerde, target: AvroSerde) -> tuple[Operation, ...] | None:
    """An Avro program for each schema that may have written a payload; None where one of them cannot be read.

    A payload's operations do not see headers: where a header names the schema, only the reference path serves.
    """
    from formats.avro.compiling import compile_schemas

    if "header" in (source.frame, target.frame):
        return None
    schema_id, reader = target.written
    inserted = pack_frame(target.frame, schema_id)
    head = (Insert(inserted),) if inserted else ()
    cases: list[tuple[bytes, tuple[Operation, ...]]] = []
    for written_id, writer in source.schemas:
        try:
            program = compile_schemas(writer, reader)
        except UnresolvableSchemasError:
            return None
        cases.append((pack_frame(source.frame, written_id), (*head, Avro(program))))
    return cases[0][1] if source.frame == "none" else (Choose(tuple(cases)),)
