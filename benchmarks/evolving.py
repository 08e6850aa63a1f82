"""Avro values from one schema to the next: by the generated program, and by fastavro's own resolution and encoding.

The record has eight fields, one of them a record, one an array and one a double that may be null.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro

from benchmarks.stores import ensure_entries, key_of
from formats.avro.compiling import compile_schemas
from formats.avro.schema import AvroSchema
from migrate.engine.avro.function import generate_column

Schema = dict[str, Any]
RECORDS, STORE_RECORDS = 50_000, 200_000
_BATCH = 1024
OLD: Schema = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "discount", "type": ["null", "double"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
            },
        },
        {"name": "is_paid", "type": "boolean"},
    ],
}


def _splice() -> Schema:
    """Another name, a wider number, and a new field with a default."""
    new = copy.deepcopy(OLD)
    new["fields"][1] |= {"name": "client", "aliases": ["customer"]}
    new["fields"][3]["type"] = "long"
    new["fields"].append({"name": "channel", "type": "string", "default": "web"})
    return new


def _rebuild() -> Schema:
    """Fields in another order, one left out, numbers that are encoded otherwise, a wider union, a nested default."""
    new = copy.deepcopy(OLD)
    fields = new["fields"]
    fields[2]["type"] = "double"
    fields[4] = {"name": "discount", "type": ["string", "null", "double"], "default": "none"}
    fields[6]["type"]["fields"].insert(0, {"name": "country", "type": "string", "default": "de"})
    fields.insert(0, fields.pop(6))
    del fields[2]
    return new


CHANGES: dict[str, Callable[[], Schema]] = {"splice": _splice, "rebuild": _rebuild}


def ensure_values(folder: Path) -> Path:
    """A file of encoded values, made unless it is there."""
    file = folder / f"avro-{RECORDS}.pickle"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        schema, rng = fastavro.parse_schema(copy.deepcopy(OLD)), random.Random(7)
        file.write_bytes(pickle.dumps([_encode(schema, _order(rng, number)) for number in range(RECORDS)]))
    return file


def ensure_avro_store(folder: Path) -> tuple[Path, int]:
    """A store of these values, each of them several times, and the number of its records."""
    path, values = folder / "avro-store", pickle.loads(ensure_values(folder).read_bytes())
    entries = ((key_of(number), values[number % RECORDS]) for number in range(STORE_RECORDS))
    ensure_entries(path, {"schema": OLD, "records": STORE_RECORDS}, entries)
    return path, STORE_RECORDS


def _order(rng: random.Random, number: int) -> dict[str, object]:
    return {
        "id": f"order-{number:08}",
        "customer": f"customer-{rng.randrange(100_000)}",
        "amount": rng.randrange(1_000_000),
        "count": rng.randrange(20),
        "discount": rng.choice([None, rng.random()]),
        "tags": [rng.choice(["new", "gift", "express"]) for _ in range(rng.randrange(4))],
        "address": {"street": f"Street {rng.randrange(500)}", "zip": rng.randrange(99_999)},
        "is_paid": rng.random() < 0.5,
    }


def _encode(schema: Any, value: object) -> bytes:  # noqa: ANN401 - what fastavro makes of a schema
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def by_the_program(new: Schema) -> Callable[[list[bytes]], list[bytes]]:
    """As the portable engine does it."""
    program = compile_schemas(AvroSchema(json.dumps(OLD)), AvroSchema(json.dumps(new)))
    return generate_column(program)


def by_fastavro(new: Schema) -> Callable[[list[bytes]], list[bytes]]:
    """As one would write it."""
    writer, reader = fastavro.parse_schema(copy.deepcopy(OLD)), fastavro.parse_schema(copy.deepcopy(new))

    def convert(column: list[bytes]) -> list[bytes]:
        return [_encode(reader, fastavro.schemaless_reader(io.BytesIO(value), writer, reader)) for value in column]

    return convert


AVRO_ROUTES = {"program": by_the_program, "fastavro": by_fastavro}


def convert_values(change: str, route: str, file: str) -> dict[str, object]:
    """CPU seconds of the conversion alone, and a digest of what came of it; compiling is part of it."""
    values = pickle.loads(Path(file).read_bytes())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    convert = AVRO_ROUTES[route](CHANGES[change]())
    converted = [new for at in range(0, len(values), _BATCH) for new in convert(values[at : at + _BATCH])]
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    return {"seconds": seconds, "digest": hashlib.sha256(b"".join(converted)).hexdigest()}
