"""An Avro schema as a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from formats.avro.parsing import branch_name, parse
from formats.avro.types import Enum, Record, Types


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema, by its JSON text. Raises SchemaError for a text that is not a schema."""

    text: str

    def __post_init__(self) -> None:
        types_of(self)

    def __str__(self) -> str:
        return branch_name(types_of(self).root)


@lru_cache(maxsize=256)
def types_of(schema: AvroSchema) -> Types:
    """The parsed schema. Raises SchemaError."""
    return parse(schema.text)


def names_java_refuses(schema: AvroSchema) -> tuple[str, ...]:
    """The names of the schema that Java's parser does not take; aliases of fields may be anything there."""
    return tuple(dict.fromkeys(name for name in _names(types_of(schema)) if not _is_name_in_java(name)))


def _names(types: Types) -> Iterator[str]:
    for known in types.named.values():
        yield from known.name.split(".")
        yield from (alias.rpartition(".")[2] for alias in known.aliases)
        if isinstance(known, Record):
            yield from (field.name for field in known.fields)
        elif isinstance(known, Enum):
            yield from known.symbols


def _is_name_in_java(name: str) -> bool:
    of_letters = "".join("a" if each.isdecimal() else each for each in name.replace("_", "a"))
    return of_letters.isalpha() and not name[0].isdecimal()
