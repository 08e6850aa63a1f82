"""Cursors: where the next page begins, signed, so that none leads into another store or another range.

| size | field                                                                                  |
|------|----------------------------------------------------------------------------------------|
| 16   | the first bytes of HMAC-SHA256 over the range that was asked for and what follows      |
| rest | JSON: which store and which partitions it was made of, and where the page begins       |

All of it in base64url without padding. The key of the HMAC is the process's own.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from migrate.serve.web.problems import Problem

_SIZE = 16
_AGAIN = "ask without a cursor, from the beginning"


@dataclass(frozen=True, slots=True)
class Cursors:
    """The cursors of one process."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def seal(self, asked: str, made_of: str, place: object) -> str:
        """The cursor of a place in what was asked for."""
        payload = json.dumps([made_of, place], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._sign(asked, payload) + payload).rstrip(b"=").decode()

    def unseal(self, cursor: str, asked: str, made_of: str) -> Any:  # noqa: ANN401 - what `seal` was given
        """The place of a cursor. Raises Problem, 409 where the store was replaced since, or is on other hosts."""
        try:
            found = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            found = b""
        payload = found[_SIZE:]
        if not hmac.compare_digest(found[:_SIZE], self._sign(asked, payload)):
            what = "the cursor is none of this query: it is damaged, or of another store, range or run of the service"
            raise Problem(400, what, hint=_AGAIN)
        was_made_of, place = json.loads(payload)
        if was_made_of != made_of:
            what = "the store was replaced since this cursor was made, or its partitions went to other hosts"
            raise Problem(409, what, hint=_AGAIN)
        return place

    def _sign(self, asked: str, payload: bytes) -> bytes:
        return hmac.digest(self.key, asked.encode() + b"\0" + payload, "sha256")[:_SIZE]
