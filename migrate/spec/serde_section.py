"""`[conversion.key]` and `[conversion.value]`: what a payload is, and what it becomes.

[conversion.value]
from = {serde = "avro", frame = "confluent", schemas = {1 = "v1.avsc", 4 = "v1b.avsc"}}
to   = {serde = "avro", frame = "confluent", id = 7, schema = "v2.avsc"}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, model_validator
from pydantic_core import PydanticCustomError

from formats.serdes.avro_frame import FRAMES, Frame
from formats.serdes.numeric import NUMBERS
from formats.serdes.registry import ALIASES, SERDE_NAMES
from migrate.errors import did_you_mean

LARGEST_ID = (1 << 31) - 1
LARGEST_GLOBAL_ID = (1 << 63) - 1
"""Of Apicurio's 8 bytes."""
_REGISTRY = re.compile(r"https?://[^/\s]+\S*")
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OPTIONS = {
    **{str(name): frozenset({"endian"}) for name in NUMBERS},
    "list": frozenset({"inner"}),
    "avro": frozenset({"frame", "schemas", "schema", "registry", "subject", "ids", "id", "guid"}),
}
_BY_NUMBER = ("confluent", "apicurio")
NamedId = int | UUID
"""How a frame names a schema: by a number, or in headers by a GUID."""


def _named_id(name: object) -> NamedId:
    """An id as a spec writes it; TOML's own keys are always text."""
    if isinstance(name, str) and _GUID.fullmatch(name):
        return UUID(name)
    if isinstance(name, str) and re.fullmatch(r"[0-9]{1,19}", name):
        name = int(name)
    if isinstance(name, int) and not isinstance(name, bool) and 0 <= name <= LARGEST_GLOBAL_ID:
        return name
    raise PydanticCustomError("schema_id", "should be a schema's id, like 7, or its GUID, like {guid}", {"guid": _LIKE})


def _inner(found: object) -> object:
    return {"serde": found} if isinstance(found, str) else found


def _guid(name: object) -> UUID:
    if isinstance(name, str) and _GUID.fullmatch(name):
        return UUID(name)
    raise PydanticCustomError("guid", "should be a GUID, like {guid}", {"guid": _LIKE})


_LIKE = '"89791762-2336-4186-9674-299b90a802e2"'
_Id = Annotated[NamedId, BeforeValidator(_named_id)]


class _PayloadSection(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, hide_input_in_errors=True, validate_by_name=False
    )


class _SerdeSection(_PayloadSection):
    serde: str
    endian: Literal["big", "little"] | None = None
    frame: Frame | None = None
    avro_schema: Annotated[Path | None, Field(alias="schema")] = None
    registry: str | None = None

    @model_validator(mode="after")
    def _is_known(self) -> _SerdeSection:
        if self.serde not in SERDE_NAMES:
            meant = ALIASES.get(self.serde.lower().removesuffix("serde"))
            ways = did_you_mean(meant or self.serde, SERDE_NAMES, f"known: {', '.join(SERDE_NAMES)}")
            if self.serde.startswith("proto"):
                ways = "not possible yet; a [conversion] function gets the bytes, and can use the generated classes"
            raise ValueError(f"unknown serde {self.serde!r}: {ways}")
        allowed = _OPTIONS.get(self.serde, frozenset())
        for name in sorted(self.model_fields_set - {"serde"}):
            option = "schema" if name == "avro_schema" else name
            if option not in allowed:
                raise ValueError(f"the serde {self.serde!r} has no option `{option}`")
        if self.serde == "list":
            _check_inner(getattr(self, "inner", None))
        if self.serde == "avro":
            if self.frame is None:
                raise ValueError("avro needs a `frame`: " + ", ".join(f'"{each}"' for each in FRAMES))
            self._check_registry()
            self._check_avro()
        return self

    def _check_registry(self) -> None:
        if self.registry is None:
            return
        if self.frame in ("apicurio", "glue"):
            raise ValueError(f'with frame "{self.frame}" the schemas are files: their registry is not asked')
        if any(mark in self.registry for mark in "@?#"):  # anything may be meant as a secret: never shown
            raise ValueError(
                "`registry` holds a password or more than a URL's base, and specs are printed: docs/serdes.md "
                "describes where credentials belong"
            )
        if not _is_base_url(self.registry):
            raise ValueError(f"`registry` is a URL, like http://localhost:8081, not {self.registry!r}")

    def _check_avro(self) -> None:
        raise NotImplementedError


class OldSerdeSection(_SerdeSection):
    """`from`: how the old store's payloads are written."""

    schemas: dict[_Id, Path] = {}
    """Files of the schemas that wrote the payloads, by id."""
    subject: str | None = None
    """A subject in the registry: every version of it."""
    ids: tuple[_Id, ...] = ()
    """Ids of schemas in the registry."""

    inner: Annotated[OldSerdeSection | None, BeforeValidator(_inner)] = None
    """Of a list: how its entries are written."""

    def _check_avro(self) -> None:
        named = {"schemas": self.schemas, "schema": self.avro_schema, "subject": self.subject, "ids": self.ids}
        given = [name for name, value in named.items() if value]
        ways = ("schema", "ids") if self.frame == "none" else ("schemas", "subject", "ids")
        if len(given) != 1 or given[0] not in ways:
            raise ValueError(f'with frame "{self.frame}", give one of {_listed(ways)}')
        if (given[0] in ("subject", "ids")) != (self.registry is not None):
            raise ValueError("`subject` and `ids` go with `registry`, and files do not")
        if self.frame == "none" and len(self.ids) > 1:
            raise ValueError('with frame "none" payloads do not name their schema: give one id')
        names = (*self.schemas, *self.ids)
        if self.frame in _BY_NUMBER and any(isinstance(name, UUID) for name in names):
            raise ValueError(f'frame "{self.frame}" names schemas by number; GUIDs go with frame "header" or "glue"')
        if self.frame == "glue" and any(isinstance(name, int) for name in names):
            raise ValueError('frame "glue" names schemas by the UUID of a schema version, not by number')
        if self.frame != "apicurio" and any(isinstance(name, int) and name > LARGEST_ID for name in names):
            raise ValueError(f'a schema\'s id is at most {LARGEST_ID}, in frame "apicurio" alone it has 8 bytes')


class NewSerdeSection(_SerdeSection):
    """`to`: how the new store's payloads are written."""

    id: Annotated[StrictInt, Field(ge=0, le=LARGEST_GLOBAL_ID)] | None = None
    guid: Annotated[UUID, BeforeValidator(_guid)] | None = None
    inner: Annotated[NewSerdeSection | None, BeforeValidator(_inner)] = None

    def _check_avro(self) -> None:
        if (self.avro_schema is None) == (self.registry is None):
            raise ValueError("give `schema`, a file, or `registry`")
        if self.frame in _BY_NUMBER and (self.id is None or self.guid is not None):
            raise ValueError(f'frame "{self.frame}" needs the new schema\'s `id`, and no `guid`')
        if self.frame in ("header", "glue") and (self.guid is None or self.id is not None):
            raise ValueError(f'frame "{self.frame}" needs the new schema\'s `guid`, and no `id`')
        if self.frame != "apicurio" and self.id is not None and self.id > LARGEST_ID:
            raise ValueError(f'`id` is at most {LARGEST_ID}, in frame "apicurio" alone it has 8 bytes')
        if self.frame == "none" and (self.registry is None) != (self.id is None and self.guid is None):
            raise ValueError('with frame "none", `id` or `guid` goes with `registry`: the frame writes neither')
        if self.id is not None and self.guid is not None:
            raise ValueError("give `id` or `guid`, not both")


class SerdeChangeSection(_PayloadSection):
    """How the payload of one part of each record is written, and what it becomes."""

    source: Annotated[OldSerdeSection, Field(alias="from")]
    target: Annotated[NewSerdeSection, Field(alias="to")]


def _check_inner(inner: _SerdeSection | None) -> None:
    if inner is None:
        raise ValueError("a list needs `inner`, the serde of its entries")
    if inner.frame == "header" or inner.serde == "list":
        raise ValueError("the entries of a list have no headers of their own, and are no lists")


def _is_base_url(text: str) -> bool:
    try:
        port = urlsplit(text).port
    except ValueError:
        return False
    return port != 0 and _REGISTRY.fullmatch(text) is not None


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names[:-1]) + f" or `{names[-1]}`"
