"""What can be asked, as an OpenAPI 3.1 document."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined

from migrate.model.packages import VERSION
from migrate.queries.get_report import Verdict
from migrate.queries.json_values import ENCODINGS
from migrate.serve.http_messages import Answer

_KEY = (
    "The key: text for string and uuid, digits for numbers, true or false for boolean, "
    "JSON text for json, avro and list, base64url for bytes."
)


_PARAMETERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "store": ("path", {"type": "string"}, "The store's name."),
    "key": ("path", {"type": "string"}, _KEY),
    "as_of": ("query", {"type": "integer", "minimum": 0}, "Versioned stores: the value at this time, in ms."),
    "stale": (
        "query",
        {"type": "boolean"},
        "Also read a standby, or what an application that has the store open has written to disk; "
        "X-Stateferry-As-Of says when that was, in ms.",
    ),
    "encoding": (
        "query",
        {"enum": [*ENCODINGS]},
        "How keys are written: serialized, in base64url (or base64) or hex; or as text, of bytes in UTF-8.",
    ),
    "window": ("query", {"type": "string"}, "One window by its start, or a session by `start,end`, in ms."),
    "from_time": (
        "query",
        {"type": "integer", "minimum": 0},
        "The first start of a window, or end of a session, in ms.",
    ),
    "to_time": ("query", {"type": "integer", "minimum": 0}, "The last start of a window or session, in ms."),
    "from_key": ("query", {"type": "string"}, "The first key, written as in a path. Left out: the first one there is."),
    "to_key": ("query", {"type": "string"}, "The last key, which is included. Left out: the last one there is."),
    "limit": ("query", {"type": "integer", "minimum": 1}, "Records of one answer."),
    "cursor": ("query", {"type": "string"}, "Of the page before."),
    "reverse": ("query", {"type": "boolean"}, "From the last key to the first, within each partition."),
}


_RECORD = {
    "type": "object",
    "required": ["key", "value"],
    "properties": {
        "key": {"description": "As its serde reads it; bytes as base64."},
        "value": {"description": "As its serde reads it; bytes as base64."},
        "timestamp": {"type": "integer", "description": "In ms; -1: unknown. Only where the format has timestamps."},
        "valid_to": {"type": ["integer", "null"], "description": "Versioned stores: when it was replaced, in ms."},
        "window": {
            "type": "object",
            "description": "Window and session stores, in ms.",
            "properties": {"start": {"type": "integer"}, "end": {"type": ["integer", "null"]}},
        },
    },
}


_PROBLEM = {
    "type": "object",
    "required": ["status", "title"],
    "properties": {
        "status": {"type": "integer"},
        "title": {"type": "string"},
        "error": {"type": "string", "description": "The library's error, such as StateStoreMigratedError."},
        "detail": {"type": "string", "description": "What happened."},
        "next": {"type": "string", "description": "What to do next."},
    },
}


_NAMES = {"type": "array", "items": {"type": "string"}}


_RECORDS = {"type": "array", "items": {"$ref": "#/components/schemas/Record"}}


_TIMES = {"key": {}, "records": _RECORDS, "complete": {"type": "boolean", "description": "Whether these are all."}}


_PAGE = {"records": _RECORDS, "cursor": {"type": ["string", "null"], "description": "Of the next page; null: none."}}


_OBJECT: dict[str, Any] = {"type": "object"}


_SIDE = {"type": ["object", "null"], "description": "The record; null: there is none."}


_COMPARED = {
    "store_partition": {"type": "string"},
    "verdict": {"enum": [*get_args(Verdict)]},
    **dict.fromkeys(("old", "converted", "new"), _SIDE),
    "reason": {"type": "string", "description": "Why the conversion rejects the old record."},
    "changes": {**_NAMES, "description": "Fields in which the converted record differs from the old one."},
    "differences": {**_NAMES, "description": "Fields in which the new record differs from the converted one."},
}


_COMPARISON = {
    "type": "object",
    "properties": {
        "state": {"type": "string", "description": "The state of the migration, as `stateferry status` names it."},
        "records": {"type": "array", "items": {"type": "object", "properties": _COMPARED}},
        "is_complete": {"type": "boolean", "description": "Whether these are all."},
    },
}


_OF_KEY = ("store", "key", "stale", "encoding")


_ENDPOINTS: tuple[tuple[str, str, tuple[str, ...], dict[str, Any], str], ...] = (
    ("/stores", "The stores and their formats.", (), _OBJECT, ""),
    ("/stores/{store}", "A store and its partitions on this host.", ("store",), _OBJECT, ""),
    (
        "/stores/{store}/keys/{key}",
        "The record of a key, of a key-value or versioned store. Its ETag changes with the store.",
        (*_OF_KEY, "as_of"),
        {"$ref": "#/components/schemas/Record"},
        "",
    ),
    (
        "/stores/{store}/range",
        "The records of a range of keys, of a key-value store, a page at a time. In order within each partition.",
        ("store", "from_key", "to_key", "limit", "cursor", "reverse", "encoding", "stale"),
        {"type": "object", "properties": _PAGE},
        "",
    ),
    (
        "/stores/{store}/windows/{key}",
        "The windows of a key, by their start.",
        (*_OF_KEY, "from_time", "to_time", "limit"),
        {"type": "object", "properties": _TIMES},
        "",
    ),
    (
        "/stores/{store}/sessions/{key}",
        "The sessions of a key that end at `from` or later and start at `to` or earlier.",
        (*_OF_KEY, "from_time", "to_time", "limit"),
        {"type": "object", "properties": _TIMES},
        "",
    ),
    (
        "/stores/{store}/all",
        'Every record of all hosts, one line each. The last line is {"end": true, "records": N}; without it, or with '
        "an `error` in its place, the answer is not complete.",
        ("store", "stale"),
        {"$ref": "#/components/schemas/Record"},
        "application/x-ndjson",
    ),
    ("/metadata/{store}/{key}", "The partition of a key, and its hosts.", ("store", "key", "encoding"), _OBJECT, ""),
    (
        "/compare/{store}/{key}",
        "Of a service of a migration: the old record of a key, what the conversion makes of it, and the new record, in "
        "each store partition on this host. The same as `stateferry get --json`. /compare is a page for people.",
        ("store", "key", "window", "encoding"),
        {"$ref": "#/components/schemas/Comparison"},
        "",
    ),
    ("/health", "Whether the service answers; needs no token.", (), _OBJECT, ""),
    ("/metrics", "Metrics for Prometheus.", (), {"type": "string"}, "text/plain"),
)


_STATUSES = {
    "400": "The key, a parameter or the cursor cannot be read, or the store is of another type.",
    "401": "The bearer token is missing or wrong.",
    "404": "There is no such store or key.",
    "409": "The store was replaced since the cursor was made, or its partitions went to other hosts.",
    "421": "A partition is not on this host, and no route leads to it; or the lists of two hosts differ.",
    "503": "The store is being moved, its host does not answer, or there are too many scans: see Retry-After.",
}


def openapi() -> dict[str, Any]:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stateferry", "version": VERSION, "description": "Queries of state stores. Reads only."},
        "security": [{"token": []}, {"password": []}, {}],
        "paths": {path: {"get": _operation(*about)} for about in _ENDPOINTS for path in about[:1]},
        "components": {
            "schemas": {"Record": _RECORD, "Comparison": _COMPARISON, "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic", "description": "Any user; the token as password."},
            },
            "responses": {
                status: {"description": what, "content": {"application/problem+json": {"schema": _REFERENCE}}}
                for status, what in _STATUSES.items()
            },
        },
    }


_REFERENCE = {"$ref": "#/components/schemas/Problem"}


def _operation(path: str, what: str, names: tuple[str, ...], schema: dict[str, Any], kind: str) -> dict[str, Any]:
    done = {"description": "Done.", "content": {kind or "application/json": {"schema": schema}}}
    statuses = _STATUSES if "store" in names else ("401",) if path != "/health" else ()
    refused = {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}
    return {"summary": what, "parameters": [_parameter(name) for name in names], "responses": {"200": done, **refused}}


def _parameter(name: str) -> dict[str, Any]:
    place, schema, what = _PARAMETERS[name]
    shown = name.removesuffix("_time").removesuffix("_key")
    return {"name": shown, "in": place, "required": place == "path", "schema": schema, "description": what}


POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def docs_page() -> Answer:
    """The page."""
    loader = PackageLoader("migrate.serve", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    text = environment.get_template("docs.html.j2").render(api=openapi())
    return Answer(text.encode(), kind=b"text/html; charset=utf-8", headers=((b"content-security-policy", POLICY),))
