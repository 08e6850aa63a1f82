"""From errors to statuses and sentences: each refusal is a document of RFC 9457 (`application/problem+json`).

| status | when                                                                                          |
|--------|-----------------------------------------------------------------------------------------------|
| 400    | a key that its serde cannot read, a wrong parameter or cursor, a question for another type of store |
| 401    | the bearer token is missing or wrong                                                          |
| 403    | a service without a token is asked under another host's name                                  |
| 404    | no such path, store or key                                                                    |
| 405    | a method other than GET and HEAD                                                              |
| 409    | the store was replaced under a cursor, or its partitions are on other hosts                   |
| 411    | a body whose length is not stated                                                             |
| 414, 431 | a request line or headers beyond the limit                                                  |
| 421    | a partition is not on this host and no route leads to it, or two hosts' lists of hosts differ |
| 500    | damaged data, a value that its serde cannot read, a bug                                       |
| 503    | the store is being moved, its host does not answer, too many scans; with `Retry-After`        |
| 508    | a request that was forwarded in a circle                                                      |
"""

from __future__ import annotations

import logging
from http import HTTPStatus

from migrate.errors import (
    ConversionError,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    MigrationError,
    StateStoreMigratedError,
    StoreClosedError,
    StoreNotReadyError,
    UnknownStateStoreError,
    explain_system_error,
)
from migrate.queries.json_values import json_bytes

_LOG = logging.getLogger("stateferry.serve")
_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (UnknownStateStoreError, 404),
    (InvalidStateStorePartitionError, 421),
    (StoreNotReadyError, 503),
    (StateStoreMigratedError, 503),
    (StoreClosedError, 503),
    (InvalidStateStoreError, 400),
)
RETRY_AFTER = "1"


class Problem(Exception):
    """A request that is not answered: its status, what happened, and what to do next."""

    def __init__(self, status: int, detail: str, *, hint: str = "", error: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.error = error
        """The name of the library's error, if it is one."""

    @property
    def sentence(self) -> str:
        """The problem for a person."""
        return f"{self.detail}; {self.hint}" if self.hint else self.detail

    @property
    def document(self) -> dict[str, object]:
        """The problem as a JSON object."""
        said: dict[str, object] = {"status": self.status, "title": HTTPStatus(self.status).phrase}
        more = {"error": self.error, "detail": self.detail, "next": self.hint}
        return said | {name: text for name, text in more.items() if text}

    @property
    def body(self) -> bytes:
        """The document as JSON text."""
        return json_bytes(self.document)


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is to whoever asked; a bug is written to the log with its traceback."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ConversionError):
        return Problem(500, f"a record cannot be read: {error.message}", hint=error.hint, error="ConversionError")
    known = error if isinstance(error, MigrationError) else explain_system_error(error)
    if known is None:
        _LOG.error("a request failed", exc_info=error)
        return Problem(500, f"this is a bug: {type(error).__name__}: {error}", hint="see the service's log")
    status = next((status for kind, status in _STATUSES if isinstance(known, kind)), 500)
    if status == 500:
        _LOG.error("%s", known)
    return Problem(status, known.message, hint=known.hint, error=type(known).__name__)
