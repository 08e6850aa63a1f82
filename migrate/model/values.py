"""The frozen bases of what is stored and of what is reported, and the seals of stored JSON.

A seal is the last member of a stored object: a digest of everything before it. Without it the object is damaged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """A frozen value that is written to files and ledgers; bytes are written as hex."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex", defer_build=True)


StoredKind = TypeVar("StoredKind", bound=Stored)
ModelKind = TypeVar("ModelKind", bound=BaseModel)
_SEAL = re.compile(r'(,\n |,)?"digest": ?"([0-9a-f]{64})"(\n?\})\Z')
_LONGEST_SEAL = 84
_PLAIN = {str, bytes, int, float, bool, dict, type(None)}


def compact(value: StoredKind) -> StoredKind:
    """The value itself, in half the memory: all values of a kind share one set of field names."""
    object.__setattr__(value, "__pydantic_fields_set__", _names_of(type(value)))
    for part in value.__dict__.values():
        kind: type = type(part)
        if kind in _PLAIN:
            continue
        for each in part if kind is tuple else (part,):
            inner: type = type(each)
            if is_model(inner):
                compact(each)
    return value


def of_valid(kind: type[ModelKind], fields: dict[str, Any]) -> ModelKind:
    """A value of fields that are known to be valid and complete: as `model_construct`, in a tenth of its time."""
    value = kind.__new__(kind)
    parts = {"__pydantic_fields_set__": _names_of(kind), "__pydantic_extra__": None, "__pydantic_private__": None}
    value.__setstate__({"__dict__": fields, **parts})
    return value


@cache
def is_model(kind: type) -> bool:
    """Whether values of this type are pydantic's: its own `isinstance` is slow for others."""
    return issubclass(kind, BaseModel)


@cache
def _names_of(kind: type[BaseModel]) -> set[str]:
    return {*kind.model_fields}


REPORT_SCHEMA = 1


class Value(BaseModel):
    """A frozen part of a report; bytes are written as hex."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="hex", val_json_bytes="hex", defer_build=True)


class Report(Value):
    """What `--json` prints: its schema is versioned."""

    schema_version: int = REPORT_SCHEMA

    def __str__(self) -> str:
        """A line for each field that is not empty, in short: `model_dump_json(indent=2)` has everything."""
        return "\n".join([type(self).__name__, *(f"  {name}: {text!r}" for name, text in self.__repr_args__())])

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """The fields that are not empty, in short, for `repr` and for printing."""
        shown = ((name, _in_short(value)) for name, value in self if name != "schema_version")
        return ((name, _Unquoted(text)) for name, text in shown if text)


class _Unquoted(str):
    __slots__ = ()
    __repr__ = str.__str__


def _in_short(value: object) -> str:
    """A value for one line: the plain fields of a part, and the number of many parts."""
    if isinstance(value, Value):
        return ", ".join(f"{name} {text}" for name, part in value if (text := _plain(part)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, tuple) and value and not isinstance(value[0], str | Path):
        return f"{len(value)} {type(value[0]).__name__}"
    if isinstance(value, tuple):
        return ", ".join(map(_plain, value[:3])) + (f" and {len(value) - 3} more" if len(value) > 3 else "")
    return _plain(value)


def _plain(value: object) -> str:
    if value is None or isinstance(value, tuple | Value):
        return ""
    text = str(value)
    return text if text.isprintable() else repr(text[:80])


def with_seal(text: str, *, beside: str = "") -> str:
    """A JSON object with its digest; `beside`: other text that the digest covers."""
    body = text.removesuffix("}").removesuffix("\n")
    gap, end = (",\n ", "\n}") if text.endswith("\n}") else ("," if body != "{" else "", "}")
    return f'{body}{gap}"digest":"{_digest(text, beside)}"{end}'


def without_seal(text: str, *, beside: str = "") -> tuple[str, bool]:
    """The object without its seal, and whether there is one with the right digest."""
    seal = _SEAL.search(text, max(0, len(text) - _LONGEST_SEAL))
    if seal is None:
        return text, False
    plain = text[: seal.start()] + seal[3]
    return plain, _digest(plain, beside) == seal[2]


def read_sealed(content: bytes) -> tuple[str, bool]:
    """A file's JSON without its seal, and whether it is intact."""
    return without_seal(content.decode("utf-8", "replace"))


def _digest(text: str, beside: str) -> str:
    return hashlib.sha256(f"{beside}{text}".encode()).hexdigest()
