"""Every column of every format and serde, as Spark takes it."""

import datetime
import decimal
import json
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from formats import Headers, StateRecord
from formats.avro.schema import AvroSchema
from formats.registry import FORMATS, get_format
from formats.serde import BYTES, Serde
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NUMBERS, NumberSerde
from formats.serdes.text import StringSerde, UuidSerde
from jobs.rows.data_source import arrow_schema, spark_schema
from migrate.queries.open.partition import StoreDefinition
from migrate.rows.row_source import RowSelection, rows_of_path
from tests.jobs.rows.sessions import rows, users_session
from tests.queries.views.made import key_value

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "either", "type": ["string", "boolean"]},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}},
    ],
}
AVRO = AvroSerde(((None, AvroSchema(json.dumps(SCHEMA))),), "none", "value")
PLAIN: tuple[Serde, ...] = (BYTES, StringSerde(), UuidSerde(), JsonSerde(), BooleanSerde())
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""PySpark 4.1 has no such parameter, and means the same."""
SERDES = (*PLAIN, *(NumberSerde(name) for name in NUMBERS), ListSerde(StringSerde()), AVRO)


@pytest.mark.parametrize("format_id", [known.id for known in FORMATS])
@pytest.mark.parametrize("is_permissive", [False, True])
def test_spark_takes_the_batches_as_they_are(format_id: str, *, is_permissive: bool) -> None:
    for key in SERDES:
        for value in SERDES:
            chosen = RowSelection(is_permissive=is_permissive)
            source = rows_of_path(Path("app"), "orders", StoreDefinition(format_id, key, value), chosen)
            wanted = to_arrow_schema(spark_schema(source), **IN_UTC)
            assert wanted.equals(arrow_schema(source))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with users_session() as session:
        yield session


def test_every_avro_type_arrives(spark: SparkSession, tmp_path: Path) -> None:
    from fastavro import parse_schema, schemaless_writer

    order: dict[str, Any] = {
        "id": 7,
        "note": None,
        "kind": "OLD",
        "day": datetime.date(2026, 1, 2),
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "local": datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
        "price": decimal.Decimal("12.50"),
        "hash": b"\x00\xff",
        "tags": ["a", "b"],
        "counts": {"x": 1},
        "either": True,
        "inner": {"x": 0.5},
    }
    with (tmp_path / "payload").open("w+b") as file:
        schemaless_writer(file, parse_schema(SCHEMA), order)
        file.seek(0)
        payload = file.read()
    (tmp_path / "order.avsc").write_text(json.dumps(SCHEMA))
    app = key_value(tmp_path, {b"k": payload})
    serde = f'{{serde = "avro", frame = "none", schema = "{tmp_path}/order.avsc"}}'
    (found,) = rows(spark, app, key="string", value=serde).collect()
    value = found.value.asDict(recursive=True)
    at = value.pop("at")
    assert at.timestamp() == order.pop("at").timestamp()
    assert value == order | {"either": {"member0": None, "member1": True}}


def test_headers_and_lists_arrive(spark: SparkSession, tmp_path: Path) -> None:
    known = get_format("kafka-streams.headers-key-value")
    known = replace(known, key_serde=StringSerde(), value_serde=ListSerde(StringSerde()))
    headers = Headers.of([("a", b"1"), ("b", None)])
    key, stored = known.encode(StateRecord("k", ["x", None], timestamp_ms=-1, headers=headers))
    app = key_value(tmp_path, {key: stored}, family="keyValueWithTimestampAndHeaders")
    listed = '{serde = "list", inner = "string"}'
    (found,) = rows(spark, app, known.id, key="string", value=listed).collect()
    assert found.value == ["x", None]
    assert found.timestamp is None
    assert [tuple(each) for each in found.headers] == [("a", b"1"), ("b", None)]
