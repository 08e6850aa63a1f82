"""Byte operations that change a payload from one serde to another."""

from __future__ import annotations

from formats.program import IDENTITY, Copy, Operation, Reverse
from formats.serde import BytesSerde, Serde
from formats.serdes.numeric import NumberSerde


def compile_serdes(source: Serde, target: Serde) -> tuple[Operation, ...] | None:
    """What the payload needs, or None where only the reference path serves.

    The operations refuse what the reference path refuses, so text, UUIDs and JSON have none: they are to be checked.
    """
    if isinstance(source, BytesSerde) and isinstance(target, BytesSerde):
        return IDENTITY
    if isinstance(source, NumberSerde) and isinstance(target, NumberSerde):
        return _number(source, target)
    if source.name == target.name == "avro":
        from formats.serdes.avro_compiling import compile_avro
        from formats.serdes.avro_serde import AvroSerde

        assert isinstance(source, AvroSerde)
        assert isinstance(target, AvroSerde)
        return compile_avro(source, target)
    return None


def _number(source: NumberSerde, target: NumberSerde) -> tuple[Operation, ...] | None:
    if source.name != target.name:
        return None
    return (Copy(source.size),) if source.endian == target.endian else (Reverse(source.size),)
