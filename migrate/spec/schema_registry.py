"""A Confluent-compatible Schema Registry, read only: schemas by id, by GUID, and all of a subject.

| request                                   | answer                                                  |
|-------------------------------------------|---------------------------------------------------------|
| `GET /schemas/ids/{id}`                   | `schema`, `schemaType` (absent: AVRO), `references`     |
| `GET /schemas/guids/{guid}`               | the same; registries that know GUIDs                    |
| `GET /subjects/{s}/versions`              | a list of numbers                                       |
| `GET /subjects/{s}/versions/{v}`          | the same as of a schema, and `id`, `guid`               |

Deleted versions are requested too (`deleted=true`): a store may hold what they wrote. References are inlined.
Responses are pinned beside the plan when a migration starts: a resume, a verification and a cut-over convert by the
schemas that the run started with (I2), and need no registry.
Source: the registry's own OpenAPI description, core/generated/swagger-ui/schema-registry-api-spec.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

from migrate.errors import RefusedError, RegistryError
from migrate.model.plan import newest_plan
from migrate.model.values import read_sealed, with_seal
from migrate.spec.registry_http import BASE_HINT, PATIENT, NotFound, RegistryHttp, Tries, authorization
from migrate.stores.files import write_durably

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_KINDS = _NAMED | {"array", "map"}
_FILE = "registry-answers.json"


def inline_references(schema: Any, referenced: Iterable[Any]) -> Any:  # noqa: ANN401 - JSON
    """`schema`, with the definitions of `referenced` types put in where their names occur first."""
    definitions: dict[str, dict[str, Any]] = {}
    for other in referenced:
        _collect(other, "", definitions)
    return _Inlining(definitions).walk(schema, "")


def _collect(schema: Any, namespace: str, found: dict[str, dict[str, Any]]) -> None:  # noqa: ANN401
    """Collect every named type that `schema` defines, by its full name."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, found)
    elif isinstance(schema, dict):
        if schema.get("type") in _NAMED:
            full_name, namespace = _name(schema, namespace)
            found.setdefault(full_name, schema)
        fields = [field.get("type") for field in schema.get("fields", ()) if isinstance(field, dict)]
        for inner in (*map(schema.get, ("type", "items", "values")), *fields):
            _collect(inner, namespace, found)


def _name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """(full name, the namespace of the types within)."""
    name = str(schema.get("name", ""))
    own = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", namespace))
    return _full(name, own), own


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


class _Inlining:
    def __init__(self, definitions: dict[str, dict[str, Any]]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def walk(self, schema: Any, namespace: str) -> Any:  # noqa: ANN401
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.walk(branch, namespace) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        if schema.get("type") in _NAMED:
            full_name, namespace = _name(schema, namespace)
            if full_name in self._defined:
                return full_name
            self._defined.add(full_name)
            return self._inside(schema, namespace) | {"name": full_name.rpartition(".")[2], "namespace": namespace}
        return self._inside(schema, namespace)

    def _inside(self, schema: dict[str, Any], namespace: str) -> dict[str, Any]:
        walked = dict(schema)
        for key in ("type", "items", "values"):
            inner = schema.get(key)
            if isinstance(inner, list | dict) or (isinstance(inner, str) and inner not in _KINDS):
                walked[key] = self.walk(inner, namespace)
        if "fields" in schema:
            walked["fields"] = [field | {"type": self.walk(field["type"], namespace)} for field in schema["fields"]]
        return walked

    def _named(self, name: str, namespace: str) -> Any:  # noqa: ANN401
        if name in PRIMITIVES:
            return name
        # A name without a namespace is that of the enclosing one; where there is none, the bare name.
        for full_name in (_full(name, namespace), name):
            if full_name in self._defined:
                return full_name
            if full_name in self._definitions:
                return self.walk(self._definitions[full_name], full_name.rpartition(".")[0])
        return name


@dataclass(frozen=True, slots=True)
class PinnedResponses:
    """Responses by URL. A pinned URL is not requested again."""

    known: dict[str, Any] = field(default_factory=dict)

    def get(self, http: RegistryHttp, path: str) -> Any:  # noqa: ANN401 - JSON
        """The response's JSON, or NotFound, which is not pinned. Raises RegistryError."""
        url = http.url + path
        if url not in self.known:
            response = http.get(path)
            if isinstance(response, NotFound):
                return response
            self.known[url] = response
        return self.known[url]

    @property
    def text(self) -> str:
        return json.dumps(self.known, sort_keys=True)


def load_responses(home: Path) -> PinnedResponses:
    """What a started migration has pinned; empty without a stored plan. Raises RefusedError for a damaged file."""
    file = home / _FILE
    if newest_plan(home) is None or not file.is_file():
        return PinnedResponses()
    text, is_whole = read_sealed(file.read_bytes())
    if not is_whole:
        raise RefusedError(
            f"{file} is damaged: its digest does not match its content",
            hint="remove it: the Schema Registry is requested again, and must still hold the same schemas",
        )
    return PinnedResponses(json.loads(text))


def store_responses(home: Path, texts: list[str]) -> None:
    """Write the responses durably; called before the plan that they belong to is stored."""
    known = {url: response for text in texts for url, response in json.loads(text).items()}
    if known:
        write_durably(home / _FILE, with_seal(json.dumps(known, indent=1, sort_keys=True)).encode())


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A self-contained Avro schema, with its ids in the registry."""

    text: str
    id: int
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

    def text_of(self, name: int | UUID) -> str:
        """The text of the schema with this id or GUID, self-contained. Raises RegistryError."""
        kind, hint = "ids", "check the id"
        if isinstance(name, UUID):
            kind, hint = "guids", "check the GUID; a registry that knows no GUIDs has the schema by its id"
        return self._text(self._get(f"/schemas/{kind}/{name}", f"schema {name}", hint), f"schema {name}")

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
