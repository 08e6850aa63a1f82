"""Each type of a column through a Delta table: what the row source reads is what the table holds."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from formats.avro.resolving import write
from formats.avro.schema import AvroSchema
from migrate import RefusedError, Spec, export
from migrate.rows.row_source import rows_of_spec
from tests.rows.exported import rows
from tests.shared.windowed import make_segments, windowed_spec, windows
from tests.support import make_store, raw_spec

FIELDS: dict[str, Any] = {
    "text": ["null", "string"],
    "number": "long",
    "ratio": "double",
    "flag": "boolean",
    "raw": {"type": "fixed", "name": "F", "size": 3},
    "colour": {"type": "enum", "name": "C", "symbols": ["RED", "GREEN"]},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "money": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "tags": {"type": "array", "items": "string"},
    "counts": {"type": "map", "values": "int"},
    "either": ["null", "string", "long"],
    "inner": {"type": "record", "name": "I", "fields": [{"name": "x", "type": ["null", "int"]}]},
}
DELTA = {
    "text": "string",
    "number": "long",
    "ratio": "double",
    "flag": "boolean",
    "raw": "binary",
    "colour": "string",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "money": "decimal(10,2)",
    "tags": "array",
    "counts": "map",
    "either": "struct",
    "inner": "struct",
}


def avro_spec(base: Path, fields: dict[str, Any], values: list[dict[str, Any]]) -> Spec:
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    (base / "r.avsc").write_text(json.dumps(schema))
    known = AvroSchema(json.dumps(schema))
    payloads = [write(value, known) for value in values]
    make_store(base / "old", {f"key-{at:05d}".encode(): payload for at, payload in enumerate(payloads)})
    serde = {"serde": "avro", "frame": "none", "schema": "r.avsc"}
    return raw_spec(base, base / "old", conversion={"value": {"from": serde, "to": serde}}, run={"chunk_size": "8 KiB"})


def value(rng: random.Random) -> dict[str, Any]:
    return {
        "text": rng.choice([None, "ä", "x" * rng.randint(0, 20)]),
        "number": rng.randint(-(1 << 62), 1 << 62),
        "ratio": rng.random(),
        "flag": rng.random() < 0.5,
        "raw": rng.randbytes(3),
        "colour": rng.choice(["RED", "GREEN"]),
        "day": rng.randint(-9000, 20000),
        "at": rng.randint(-(10**12), 2 * 10**12),
        "local": rng.randint(-(10**15), 2 * 10**15),
        "money": rng.randint(-9999, 9999).to_bytes(4, "big", signed=True),
        "tags": ["a"] * rng.randint(0, 3),
        "counts": {f"k{at}": at for at in range(rng.randint(0, 3))},
        "either": rng.choice([None, "text", 7]),
        "inner": {"x": rng.choice([None, 3])},
    }


def check(spec: Spec, table: Path) -> list[dict[str, Any]]:
    """Export the store, and compare with what the row source reads; returns the rows."""
    report = export(spec, table)
    source = rows_of_spec(spec)
    wanted = [row for task in source.tasks() for batch in source.read(task) for row in batch.to_pylist()]
    found = rows(table)

    def in_order(all_of: list[dict[str, Any]]) -> list[str]:
        return sorted(repr(sorted((row | {"task": row["task"] or None}).items())) for row in all_of)

    assert in_order(found) == in_order(wanted)
    assert len(found) == report.records
    file = pq.ParquetFile(DeltaTable(str(table)).file_uris()[0].removeprefix("file://"))
    assert [column for column in source.schema.names if column != "task"] == file.schema_arrow.names
    return found


def test_every_type_of_avro(tmp_path: Path) -> None:
    rng = random.Random(1)
    spec = avro_spec(tmp_path, FIELDS, [value(rng) for _ in range(500)])
    check(spec, tmp_path / "table")
    fields = json.loads(DeltaTable(str(tmp_path / "table")).schema().to_json())["fields"]
    (struct,) = (each["type"]["fields"] for each in fields if each["name"] == "value")
    kinds = {each["name"]: each["type"] for each in struct}
    assert {name: kind if isinstance(kind, str) else kind["type"] for name, kind in kinds.items()} == DELTA


def test_windows(tmp_path: Path) -> None:
    records = windows(800, until=10_000_000)
    make_segments(tmp_path / "app/0_0/win", records, 600_000)
    spec = windowed_spec(tmp_path, source={"retention_ms": 100_000_000, "segment_ms": 600_000})
    found = check(spec, tmp_path / "table")
    assert len(found) == len(records)
    assert {*found[0]} == {"task", "partition", "key", "value", "window_start", "window_end", "sequence"}


@pytest.mark.parametrize(
    "fields, value",
    [
        ({"nothing": "null"}, {"nothing": None}),
        ({"empty": {"type": "record", "name": "E", "fields": []}}, {"empty": {}}),
        ({"a": "int", "A": "int"}, {"a": 1, "A": 2}),
        ({"list": {"type": "array", "items": "null"}}, {"list": [None]}),
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_type_that_no_table_can_have(tmp_path: Path, fields: dict[str, Any], value: dict[str, Any]) -> None:
    spec = avro_spec(tmp_path, fields, [value])
    with pytest.raises(RefusedError, match="a Delta table cannot have these columns") as caught:
        export(spec, tmp_path / "table")
    assert "--columns" in caught.value.hint
    assert not (tmp_path / "table").exists()
    assert export(spec, tmp_path / "table", columns=["key"]).records == 1
