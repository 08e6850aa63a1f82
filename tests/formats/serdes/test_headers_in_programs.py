"""A program copies headers as they are, so where a serde looks into them there is none."""

from dataclasses import replace
from uuid import UUID

import pytest

from formats import Conversion, Format, Headers, TruncatedEntryError, get_format
from formats.avro.schema import AvroSchema
from formats.kafka_streams.values import WITH_HEADERS
from formats.program import run_operations
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.conversions import resolving

OLD = AvroSerde(((1, AvroSchema('"int"')),), "confluent")
NEW = AvroSerde(((7, AvroSchema('"double"')),), "confluent")
STORED = b"\0\0\0\0\1\2"
WRITTEN = b"\0\0\0\0\7" + bytes.fromhex("000000000000f03f")


def _conversion(source: str, target: str) -> Conversion:
    def format_with(known: str, serde: object) -> Format:
        return replace(get_format(known), value_serde=serde)  # type: ignore[arg-type]

    return Conversion(format_with(source, resolving(OLD, NEW)), format_with(target, NEW))


def _value(headers: Headers, payload: bytes) -> bytes:
    return WITH_HEADERS.pack(payload, {"timestamp": 5, "headers": headers})


def test_a_header_that_names_another_schema_goes_whatever_runs_the_conversion() -> None:
    conversion = _conversion("kafka-streams.headers-key-value", "kafka-streams.headers-key-value")
    stale = Headers.of([("h", b"x"), ("__value_schema_id", b"\1" + UUID(int=5).bytes)])
    assert conversion.program is None
    expected = _value(Headers.of([("h", b"x")]), WRITTEN)
    assert conversion.convert(b"k", _value(stale, STORED)) == (b"k", expected)
    with pytest.raises(TruncatedEntryError):
        conversion.convert(b"k", _value(Headers(b"\xff\xff"), STORED))


@pytest.mark.parametrize("headers", [Headers(), Headers.of([("h", None)]), Headers(b"\xff\xff")])
def test_headers_that_are_lost_are_not_looked_at(headers: Headers) -> None:
    conversion = _conversion("kafka-streams.headers-key-value", "kafka-streams.timestamped-key-value")
    converted = conversion.convert(b"k", _value(headers, STORED))
    assert converted == (b"k", bytes(7) + b"\5" + WRITTEN)
    assert conversion.program is not None
    assert run_operations(conversion.program.value, _value(headers, STORED)) == converted[1]
