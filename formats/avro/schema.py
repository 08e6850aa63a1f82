"""An Avro schema as a value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from formats.avro.parsing import branch_name, parse
from formats.avro.types import Types


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema, by its JSON text. Raises SchemaError for a text that is not a schema."""

    text: str

    def __post_init__(self) -> None:
        types_of(self)

    def __str__(self) -> str:
        return branch_name(types_of(self).root)


def types_of(schema: AvroSchema) -> Types:
    """The parsed schema. Raises SchemaError."""
    return _parsed(schema.text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Types:
    return parse(text)
