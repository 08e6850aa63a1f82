"""Schemas for the tests of serdes."""

import json
from uuid import UUID

from formats.avro.schema import AvroSchema

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
SECOND_GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def record(*fields: tuple[str, object] | tuple[str, object, object], name: str = "R") -> AvroSchema:
    """A schema of one record: (name, type) or (name, type, default)."""
    described = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return AvroSchema(json.dumps({"type": "record", "name": name, "fields": described}))


OLD = record(("a", "string"), ("n", "int"))
NEW = record(("n", "long"), ("b", "string", "none"))
OTHER = record(("text", "string"))
