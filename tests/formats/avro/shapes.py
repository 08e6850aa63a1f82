"""Schemas in few words, and what becomes of their values."""

import io
import json
from typing import Any

import fastavro

from formats.avro.schema import AvroSchema
from tests.formats.avro.agreement import Paths

Json = Any


def enum(symbols: str, **more: object) -> Json:
    return {"type": "enum", "name": "Suit", "symbols": symbols.split(), **more}


def fixed(size: int, **more: object) -> Json:
    return {"type": "fixed", "name": "F", "size": size, **more}


def record(*fields: Json, name: str = "Order", **more: object) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, of: Json, **more: object) -> Json:
    return {"name": name, "type": of, **more}


def in_a(of: Json) -> Json:
    return record(field("a", of))


def written_by(schema: Json, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def pair_of(old: Json, new: Json) -> tuple[AvroSchema, AvroSchema]:
    return AvroSchema(json.dumps(old)), AvroSchema(json.dumps(new))


def becomes(old: Json, value: object, new: Json) -> object:
    """What all paths make of a value, as fastavro reads it."""
    found = Paths(*pair_of(old, new))(written_by(old, value))
    return found if isinstance(found, str) else fastavro.schemaless_reader(io.BytesIO(found), new, None)
