"""From `[conversion.key]` and `[conversion.value]` to serdes: reads files and the registry, on the driver alone."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import ValidationError

from formats import Conversion
from formats.errors import SchemaError
from formats.layout import HEADERS
from formats.serde import BYTES, Serde
from formats.serdes.avro_frame import Frame, Part, SchemaId, pack_frame
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.conversions import (
    keeps_bytes,
    names_refused,
    needs_headers,
    payload_meanings,
    payload_problem,
    payload_risks,
)
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NUMBERS, NumberSerde
from formats.serdes.text import StringSerde, UuidSerde
from migrate.errors import RefusedError, RegistryError, SpecError
from migrate.model.display import listed
from migrate.spec.allowed import KEY_CHANGE, allowing
from migrate.spec.mistakes import spec_error
from migrate.spec.schema_registry import PinnedResponses, RegisteredSchema, SchemaRegistry
from migrate.spec.serde_section import NewSerdeSection, OldSerdeSection, SerdeChangeSection

if TYPE_CHECKING:
    from formats.avro.schema import AvroSchema

Resolve = Callable[[Path], Path]
"""Resolves a path relative to the spec file."""
_SHOWN = 8
"""How many names a warning lists."""


@dataclass(frozen=True, slots=True)
class PayloadSerdes:
    """The serdes of a payload before and after; frozen, and sent to executors."""

    source: Serde
    target: Serde
    identity: str
    """The schemas that the spec names by file or id, as text: part of a migration's identity."""
    responses: str = "{}"
    """The Schema Registry's responses by URL, as JSON, to be pinned with the plan."""


def load_serdes(
    section: SerdeChangeSection, part: Part, resolve: Resolve, pinned: PinnedResponses | None = None
) -> PayloadSerdes:
    """The serdes of one part of a record. Raises SpecError for a file that is not a schema, RegistryError."""
    old, new = section.source, section.target
    pinned = PinnedResponses() if pinned is None else pinned
    source, target = (serde_of(each, part, resolve, pinned) for each in (old, new))
    # Ids are never given to another schema, and a subject may get a version while a migration runs.
    is_growing = (old.inner or old).subject is not None
    texts = {"from": {} if is_growing else _texts(source), "to": _texts(target)}
    return PayloadSerdes(source, target, json.dumps(texts), pinned.text)


def serde_of(
    section: OldSerdeSection | NewSerdeSection, part: Part, resolve: Resolve, pinned: PinnedResponses
) -> Serde:
    """The serde that a section describes. Raises SpecError, RegistryError."""
    if section.inner is not None:
        return ListSerde(serde_of(section.inner, part, resolve, pinned))
    if section.serde != "avro":
        return _plain(section.serde, section.endian)
    if isinstance(section, OldSerdeSection):
        return _old_avro(section, part, resolve, pinned)
    return _new_avro(section, part, resolve, pinned)


def stated_serde(text: str, part: Part) -> Serde:
    """The serde of a name, or of an inline table as after `from =` in a spec; its files are in the current directory.

    Raises SpecError for a text that is neither.
    """
    text = text.strip()
    try:
        stated = tomllib.loads(f"serde = {text}")["serde"] if text.startswith("{") else {"serde": text}
        section = OldSerdeSection.model_validate(stated)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"the serde {text} is not an inline table of TOML: {error}", hint=_STATED) from error
    except ValidationError as error:
        raise spec_error(error, OldSerdeSection, where=f"the serde {text}", hint=_STATED) from error
    return serde_of(section, part, Path, PinnedResponses())


_STATED = """for example: string, or '{serde = "avro", frame = "confluent", schemas = {1 = "v1.avsc"}}'"""


def _plain(name: str, endian: str | None) -> Serde:
    if name in NUMBERS:
        return NumberSerde(name, "little" if endian == "little" else "big")
    serdes: tuple[Serde, ...] = (BYTES, StringSerde(), UuidSerde(), JsonSerde(), BooleanSerde())
    return next(serde for serde in serdes if serde.name == name)


def _old_avro(section: OldSerdeSection, part: Part, resolve: Resolve, pinned: PinnedResponses) -> Serde:
    assert section.frame is not None
    if section.avro_schema is not None:
        return _avro([(None, _of_file(resolve(section.avro_schema)))], section.frame, part)
    if section.registry is None:
        files = ((schema_id, _of_file(resolve(path))) for schema_id, path in section.schemas.items())
        return _avro(files, section.frame, part)
    registry = SchemaRegistry.at(section.registry, pinned=pinned)
    if section.subject is not None:
        found = registry.of_subject(section.subject)
        return _avro(_named_by_frame(found, section.frame, section.subject), section.frame, part)
    named = ((None if section.frame == "none" else name, _registered(registry, name)) for name in section.ids)
    return _avro(named, section.frame, part)


def _new_avro(section: NewSerdeSection, part: Part, resolve: Resolve, pinned: PinnedResponses) -> Serde:
    assert section.frame is not None
    name: SchemaId = section.id if section.id is not None else section.guid
    if section.avro_schema is not None:
        schema = _of_file(resolve(section.avro_schema))
    else:
        assert section.registry is not None
        assert name is not None
        schema = _registered(SchemaRegistry.at(section.registry, pinned=pinned), name)
    return _avro([(None if section.frame == "none" else name, schema)], section.frame, part)


def _avro(schemas: Iterable[tuple[SchemaId, AvroSchema]], frame: Frame, part: Part) -> Serde:
    return AvroSerde(tuple(dict(schemas).items()), frame, part)  # two versions of a subject may be one schema


def _named_by_frame(
    found: Iterable[RegisteredSchema], frame: Frame, subject: str
) -> Iterable[tuple[SchemaId, AvroSchema]]:
    """Schemas by id, in a `header` frame by GUID too: a record without the header has a prefix in its payload."""
    for registered in found:
        schema = _parsed(registered.text, f"schema {registered.id} of subject {subject!r}")
        yield registered.id, schema
        if frame == "header":
            if registered.guid is None:
                raise RegistryError(
                    f"the Schema Registry reports no GUID for schema {registered.id} of subject {subject!r}",
                    hint='name the files in `schemas`, by GUID: schemas = {"<guid>" = "v1.avsc"}',
                )
            yield registered.guid, schema


def _registered(registry: SchemaRegistry, name: int | UUID) -> AvroSchema:
    return _parsed(registry.text_of(name), f"schema {name} of {registry.http.url}")


def _of_file(path: Path) -> AvroSchema:
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows write a byte order mark
    except OSError as error:
        raise SpecError(f"cannot read the schema {path}: {error.strerror}", hint="check the path") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"the schema {path} is not UTF-8 text", hint="name an Avro schema, a file of JSON") from error
    return _parsed(text, f"the schema {path}")


def _parsed(text: str, what: str) -> AvroSchema:
    from formats.avro.schema import AvroSchema

    try:
        return AvroSchema(text)
    except SchemaError as error:
        raise SpecError(f"{what} is not an Avro schema: {error}", hint="fix it, or name another") from error


def _texts(serde: Serde) -> dict[str, str]:
    """The schemas' JSON by id, without whitespace and comments."""
    from formats.avro.parsing import load_json

    schemas = getattr(serde, "schemas", ())
    return {str(schema_id): json.dumps(load_json(schema.text)) for schema_id, schema in schemas}


def check_payloads(
    conversion: Conversion, key: PayloadSerdes | None, value: PayloadSerdes | None, *, is_placed: bool
) -> None:
    """Check the serdes of a conversion. Raises RefusedError for incompatible ones, and for keys that would move.

    `is_placed`: each record gets to where its new key belongs.
    """
    for part, serdes in (("key", key), ("value", value)):
        if serdes is None:
            continue
        problem = payload_problem(serdes.source, serdes.target)
        if conversion.function is None and problem is not None:
            raise RefusedError(f"[conversion.{part}]: {problem}", hint=_hint(serdes))
        _check_headers(part, serdes.source, conversion.source.id, HEADERS in conversion.source.carries)
        _check_headers(part, serdes.target, conversion.target.id, HEADERS in conversion.target.carries)
    if key is not None:
        _check_key(conversion, key, is_placed=is_placed)


def payload_warnings(key: PayloadSerdes | None, value: PayloadSerdes | None, *, has_function: bool) -> list[str]:
    """Warnings about what some payloads may hold and the target cannot, and what a function has to write again."""
    found = []
    for part, serdes in (("key", key), ("value", value)):
        if serdes is None:
            continue
        risks = payload_risks(serdes.source, serdes.target)
        found += [f"[conversion.{part}]: {risk}: such records would be rejected" for risk in risks]
        if refused := names_refused(serdes.target):
            shown = listed([*map(repr, refused)], _SHOWN)
            found.append(
                f"[conversion.{part}]: Java's Avro refuses the new schema for its names: {shown}; an application in "
                "Java cannot read it: choose names of letters, digits and _, with an old field's name as its alias"
            )
        meanings = payload_meanings(serdes.source, serdes.target) if has_function else ()
        found += [
            f"[conversion.{part}]: {meaning}: the function gets what is stored, and has to write it in the new meaning "
            "(docs/avro.md: what about logical types?)"
            for meaning in meanings
        ]
    return found


def _check_headers(part: str, serde: Serde, format_id: str, carries: bool) -> None:
    if needs_headers(serde) and not carries:
        raise RefusedError(
            f"[conversion.{part}]: the frame 'header' names the schema in the record's headers, which {format_id} "
            "does not hold",
            hint='name a format with headers, or another frame: frame = "confluent"',
        )


def _check_key(conversion: Conversion, key: PayloadSerdes, *, is_placed: bool) -> None:
    is_rewritten = conversion.function is not None and key.source.name == "json"  # without its spaces
    may_move = conversion.target.keeps_keys_in_tasks and (is_rewritten or not keeps_bytes(key.source, key.target))
    if not may_move or is_placed or conversion.keys_may_change:
        return
    is_framed = _frames(key.source) != _frames(key.target)
    raise RefusedError(
        "[conversion.key]: the new key may belong to another partition and its task: the hash of its bytes decides"
        + (", the frame's among them" if is_framed else ""),
        hint="[target] partitions, also with the number that there is, puts each record where its new key belongs; or, "
        f"if every new key belongs to the same task as the old one: {allowing(KEY_CHANGE)}"
        + ("; or leave [conversion.key] out: keys stay as they are, with their schema's id" if is_framed else ""),
    )


def _frames(serde: Serde) -> set[bytes]:
    """What stands before Avro keys; nothing with other serdes."""
    return {pack_frame(serde.frame, each) for each, _ in serde.schemas} if isinstance(serde, AvroSerde) else set()


def _hint(serdes: PayloadSerdes) -> str:
    if serdes.source.name == "avro" and serdes.target.name == "avro":
        return "fix the new schema (an alias, a default), leave a version out with ids = [...], or give a function"
    return "name other serdes, or give a [conversion] function"
