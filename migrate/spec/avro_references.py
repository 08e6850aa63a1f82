"""Avro schemas that refer to types of other schemas, made self-contained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_KINDS = _NAMED | {"array", "map"}


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
        for inner in _inner(schema):
            _collect(inner, namespace, found)


def _inner(schema: dict[str, Any]) -> list[Any]:
    fields = [field.get("type") for field in schema.get("fields", ()) if isinstance(field, dict)]
    return [schema[key] for key in ("type", "items", "values") if isinstance(schema.get(key), list | dict)] + fields


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
