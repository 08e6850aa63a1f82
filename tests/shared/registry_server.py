"""A Schema Registry for tests: the read-only part of the same API, over real sockets."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from uuid import UUID

KIND = "application/vnd.schemaregistry.v1+json"


@dataclass
class Version:
    """One version of a subject."""

    id: int
    schema: str
    guid: UUID | None = None
    kind: str | None = None
    """Avro schemas are told without their kind, as the real one does it."""
    references: list[dict[str, Any]] = field(default_factory=list)
    is_deleted: bool = False


@dataclass
class Registry:
    """What it holds, how it misbehaves, and what it was asked."""

    subjects: dict[str, list[Version]] = field(default_factory=dict)
    authorization: str | None = None
    """What a client must send."""
    troubles: list[tuple[int, str]] = field(default_factory=list)
    """Answered first: a status and a body; status 0 closes the connection, -1 keeps silent until the end.

    With -2 the body is the begin of an answer, after which a byte comes now and then until the end.
    """
    location: str = ""
    url: str = ""
    asked: list[str] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and content."""
        path, _, query = path.partition("?")
        shows_deleted = query == "deleted=true"
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self._schema(lambda version: version.id == int(match[1]))
        if match := re.fullmatch(r"/schemas/guids/(.+)", path):
            return self._schema(lambda version: str(version.guid) == match[1])
        if match := re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+))?", path):
            return self._subject(match[1], match[2], shows_deleted)
        return 404, "HTTP 404 Not Found"

    def _schema(self, is_it: Any) -> tuple[int, Any]:  # noqa: ANN401
        for version in (version for versions in self.subjects.values() for version in versions):
            if is_it(version):
                return 200, _content(version)
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _subject(self, name: str, number: str | None, shows_deleted: bool) -> tuple[int, Any]:
        versions = self.subjects.get(unquote(name))
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{name}' not found."}
        shown = {at: version for at, version in enumerate(versions, 1) if shows_deleted or not version.is_deleted}
        if number is None:
            return 200, list(shown)
        if int(number) not in shown:
            return 404, {"error_code": 40402, "message": f"Version {number} not found."}
        version = shown[int(number)]
        own = {"subject": name, "version": int(number), "id": version.id}
        return 200, _content(version) | own | ({"guid": str(version.guid)} if version.guid else {})


def _content(version: Version) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": version.schema}
    if version.kind is not None:
        content["schemaType"] = version.kind
    if version.references:
        content["references"] = version.references
    return content


class _Handler(BaseHTTPRequestHandler):
    registry: Registry

    def do_GET(self) -> None:
        registry = self.registry
        registry.asked.append(self.path)
        registry.sent.append(dict(self.headers))
        if registry.troubles:
            self._misbehave(*registry.troubles.pop(0))
        elif registry.authorization not in (None, self.headers.get("Authorization")):
            self._send(401, json.dumps({"error_code": 401, "message": "Unauthorized"}))
        else:
            status, content = registry.answer(self.path)
            self._send(status, content if isinstance(content, str) else json.dumps(content))

    def _misbehave(self, status: int, body: str) -> None:
        if status == -1:
            self.registry.is_over.wait()
        elif status == -2:
            self._trickle(body.encode())
        elif status:
            self._send(status, body)

    def _trickle(self, begin: bytes) -> None:
        with suppress(ConnectionError):
            self.wfile.write(begin)
            while not self.registry.is_over.wait(0.01):
                self.wfile.write(b" ")

    def _send(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", KIND)
        if self.registry.location:
            self.send_header("Location", self.registry.location)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output for the tests."""


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """The registry at a free port of this machine."""
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        registry.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()
