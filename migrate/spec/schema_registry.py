"""A Confluent-compatible Schema Registry, read only: schemas by id, by GUID, and all of a subject.

| request                                   | answer                                                  |
|-------------------------------------------|---------------------------------------------------------|
| `GET /schemas/ids/{id}`                   | `schema`, `schemaType` (absent: AVRO), `references`     |
| `GET /schemas/guids/{guid}`               | the same; registries that know GUIDs                    |
| `GET /subjects/{s}/versions`              | a list of numbers                                       |
| `GET /subjects/{s}/versions/{v}`          | the same as of a schema, and `id`, `guid`               |

Deleted versions are requested too (`deleted=true`): a store may hold what they wrote.
Source: the registry's own OpenAPI description, core/generated/swagger-ui/schema-registry-api-spec.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import UUID

from migrate.errors import RegistryError
from migrate.spec.avro_references import inline_references
from migrate.spec.pinned_responses import PinnedResponses
from migrate.spec.registry_http import BASE_HINT, PATIENT, NotFound, RegistryHttp, Tries, authorization


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A self-contained Avro schema, with its ids in the registry."""

    text: str
    id: int | None
    guid: UUID | None


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """One registry, read only."""

    http: RegistryHttp
    pinned: PinnedResponses = field(default_factory=PinnedResponses)

    @classmethod
    def at(cls, url: str, tries: Tries = PATIENT, pinned: PinnedResponses | None = None) -> SchemaRegistry:
        """The registry at this URL, with the credentials that the environment holds."""
        return cls(RegistryHttp(url.rstrip("/"), authorization(), tries), pinned or PinnedResponses())

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id. Raises RegistryError."""
        answer = self._get(f"/schemas/ids/{schema_id}", f"schema {schema_id}", "check the id")
        return RegisteredSchema(self._text(answer, f"schema {schema_id}"), schema_id, _guid(answer))

    def by_guid(self, guid: UUID) -> RegisteredSchema:
        """The schema with this GUID. Raises RegistryError."""
        hint = "check the GUID; a registry that knows no GUIDs has the schema by its id"
        answer = self._get(f"/schemas/guids/{guid}", f"schema {guid}", hint)
        return RegisteredSchema(self._text(answer, f"schema {guid}"), None, guid)

    def of_subject(self, subject: str) -> tuple[RegisteredSchema, ...]:
        """Every version of a subject, deleted ones too, the oldest first. Raises RegistryError."""
        hint = 'check the subject; that of a topic\'s values is often "<topic>-value"'
        path = f"/subjects/{quote(subject, safe='')}/versions"
        versions = self._get(f"{path}?deleted=true", f"subject {subject!r}", hint, list)
        return tuple(self._version(path, subject, version) for version in versions)

    def names_in(self, subject: str) -> set[int | UUID | None]:
        """The ids and GUIDs that a subject has now, deleted versions left out. Raises RegistryError."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = self.pinned.get(self.http, path)
        if isinstance(found, NotFound) and found.code is not None:  # else it is no Schema Registry that was asked
            return set()
        versions = self._get(path, f"subject {subject!r}", BASE_HINT, list)
        answers = [
            self._get(f"{path}/{version}", f"version {version} of {subject!r}", BASE_HINT) for version in versions
        ]
        return {name for answer in answers for name in (answer.get("id"), _guid(answer))}

    def _version(self, path: str, subject: str, version: object) -> RegisteredSchema:
        what = f"version {version} of subject {subject!r}"
        answer = self._get(f"{path}/{version}?deleted=true", what, "it may have been removed just now: try again")
        schema_id = answer.get("id")
        if not isinstance(schema_id, int):
            raise RegistryError(f"{self.http.url} reports no id for {what}", hint=BASE_HINT)
        return RegisteredSchema(self._text(answer, what), schema_id, _guid(answer))

    def _text(self, answer: dict[str, Any], what: str) -> str:
        """The text of the schema, self-contained."""
        schema = self._schema(answer, what)
        referenced = self._referenced(answer, what, set())
        return json.dumps(inline_references(schema, referenced)) if referenced else str(answer["schema"])

    def _referenced(self, answer: dict[str, Any], what: str, seen: set[tuple[str, int]]) -> list[Any]:
        """The schemas that it refers to, directly or not, each once."""
        found: list[Any] = []
        references = answer.get("references") or ()
        for reference in references if isinstance(references, list | tuple) else [references]:
            try:
                subject, version = str(reference["subject"]), int(reference["version"])
            except (KeyError, TypeError, ValueError) as error:
                raise RegistryError(
                    f"{what} refers to {reference!r}", hint="fix the reference in the registry"
                ) from error
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            named = f"version {version} of subject {subject!r}, which {what} refers to"
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            other = self._get(path, named, "fix the reference in the registry")
            found += [self._schema(other, named), *self._referenced(other, named, seen)]
        return found

    def _schema(self, answer: dict[str, Any], what: str) -> Any:  # noqa: ANN401 - JSON
        kind = answer.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise RegistryError(f"{what} in {self.http.url} is {kind}, not Avro", hint="name an Avro schema")
        from formats.avro.parsing import load_json

        try:
            return load_json(answer["schema"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise RegistryError(f"{what} in {self.http.url} is no Avro schema: {error!r}", hint=BASE_HINT) from error

    def _get(self, path: str, what: str, hint: str, wanted: Callable[..., Any] = dict) -> Any:  # noqa: ANN401
        answer = self.pinned.get(self.http, path)
        if isinstance(answer, NotFound):
            if answer.code is None:
                raise RegistryError(f"{self.http.url}{path} is not there (HTTP 404)", hint=BASE_HINT)
            raise RegistryError(f"the Schema Registry {self.http.url} has no {what}: {answer.message}", hint=hint)
        if not isinstance(answer, wanted):  # type: ignore[arg-type]
            raise RegistryError(f"{self.http.url}{path} does not answer as a Schema Registry does", hint=BASE_HINT)
        return answer


def _guid(answer: dict[str, Any]) -> UUID | None:
    """The schema's GUID; None where the response has none."""
    try:
        return UUID(str(answer.get("guid")))
    except ValueError:
        return None
