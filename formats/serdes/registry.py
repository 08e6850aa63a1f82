"""The serdes that a spec can name, and their options."""

from __future__ import annotations

from dataclasses import dataclass

_ENDIAN = '`endian`: "big" (Kafka; the default) or "little" (Streamiz)'
_SCHEMAS = "of the old store: `schemas`, `schema`, or `registry` with `subject` or `ids`"
_SCHEMA = "of the new store: `id` or `guid`, and `schema` or `registry`"


@dataclass(frozen=True, slots=True)
class KnownSerde:
    """One serde that a spec can name."""

    name: str
    summary: str
    python_type: str
    """The type that a function gets and returns."""
    options: tuple[str, ...] = ()
    """Descriptions of the options besides `serde`."""
    keeps_bytes: bool = True
    """Whether every accepted payload is written as it was read."""


SERDES: tuple[KnownSerde, ...] = (
    KnownSerde("bytes", "the payload as it is", "bytes"),
    KnownSerde("string", "text in UTF-8", "str"),
    KnownSerde("int16", "signed integer of 2 bytes", "int", (_ENDIAN,)),
    KnownSerde("int32", "signed integer of 4 bytes", "int", (_ENDIAN,)),
    KnownSerde("int64", "signed integer of 8 bytes", "int", (_ENDIAN,)),
    KnownSerde("float", "IEEE 754 number of 4 bytes", "float", (_ENDIAN,)),
    KnownSerde("double", "IEEE 754 number of 8 bytes", "float", (_ENDIAN,)),
    KnownSerde("boolean", "one byte, 00 or 01", "bool"),
    KnownSerde("uuid", "a UUID's text, as Kafka writes it", "uuid.UUID"),
    KnownSerde("json", "JSON in UTF-8", "dict, list, str, int, float, bool, None", keeps_bytes=False),
    KnownSerde(
        "avro",
        "Avro binary, with or without a frame that names its schema",
        "what the schema says",
        ('`frame`: "none", "confluent", "apicurio", "glue" or "header"', _SCHEMAS, _SCHEMA),
        keeps_bytes=False,
    ),
    KnownSerde(
        "list",
        "a list as Kafka's ListSerde writes it, with null entries",
        "list",
        ("`inner`: the serde of its entries, a table like this one, or a name",),
        keeps_bytes=False,
    ),
)
ALIASES = {
    **{"short": "int16", "integer": "int32", "int": "int32", "long": "int64", "bool": "boolean", "float64": "double"},
    **{"float32": "float", "str": "string", "text": "string", "bytearray": "bytes", "byte[]": "bytes"},
}
"""What users call serdes, in Java and elsewhere: for the question whether one of ours is meant."""
SERDE_NAMES = tuple(known.name for known in SERDES)
