"""GET requests to a Schema Registry: credentials from the environment, time limits, retries where they may help."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from http.client import HTTPException
from threading import Thread
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from migrate.errors import RegistryError

USER_INFO = "STATEFERRY_REGISTRY_USER_INFO"
"""`user:password`, or a key and its secret: HTTP basic authentication."""
TOKEN = "STATEFERRY_REGISTRY_TOKEN"
"""A bearer token."""
ACCEPT = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
MAX_BYTES = 16 << 20
BASE_HINT = "check the URL: it is the API's base, without /subjects or /schemas"
T = TypeVar("T")
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Tries:
    """How often and how long to try."""

    count: int = 4
    timeout_s: float = 10
    """The longest wait for the next byte, in seconds."""
    total_s: float = 60
    """The longest time for one request with all tries, in seconds."""
    pause_s: float = 0.5
    """The pause before the second try, in seconds; doubled before each further one."""


PATIENT = Tries()


@dataclass(frozen=True, slots=True)
class NotFound:
    """The registry does not have what was requested; `code` is its own error code."""

    code: int | None
    message: str


@dataclass(frozen=True, slots=True)
class RegistryHttp:
    """Reads below one base URL. Nothing that it prints or raises holds a credential."""

    url: str
    authorization: str | None = field(default=None, repr=False)
    tries: Tries = PATIENT

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """The response's JSON, or NotFound for 404. Raises RegistryError."""
        end = time.monotonic() + self.tries.total_s
        number, pause = 1, self.tries.pause_s
        while True:
            try:
                return _before(end, partial(self._answer, path))
            except (URLError, HTTPException, OSError) as error:
                reason = _reason(error)
            if number == self.tries.count or time.monotonic() + pause >= end:
                break
            time.sleep(pause)
            number, pause = number + 1, 2 * pause
        raise RegistryError(
            f"the Schema Registry {self.url} does not answer {path}: {reason}, "
            f"{'once' if number == 1 else f'{number} times'}",
            hint="check that it runs and can be reached from here, then run the command again",
        )

    def _answer(self, path: str) -> Any:  # noqa: ANN401
        """The response's JSON, or NotFound. Raises OSError or HTTPException where a retry may help."""
        # Confluent Cloud leaves out guid and schemaType unless the client accepts unknown keys.
        headers = {"Accept": ACCEPT, "Confluent-Accept-Unknown-Properties": "true"}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        request = Request(self.url + path, headers=headers)
        try:
            with build_opener(_NoRedirects()).open(request, timeout=self.tries.timeout_s) as response:
                content = response.read(MAX_BYTES)
        except HTTPError as error:
            with error:
                if error.code == 404:
                    return NotFound(*_message(error))
                if error.code in _RETRIED:
                    raise OSError(f"HTTP {error.code}") from None
                raise self._refusal(path, error) from None
        try:
            return json.loads(content)  # an answer that was cut off at MAX_BYTES is no JSON
        except (ValueError, RecursionError) as error:
            message = f"{self.url}{path} does not answer as a Schema Registry does"
            raise RegistryError(message, hint=BASE_HINT) from error

    def _refusal(self, path: str, error: HTTPError) -> RegistryError:
        if error.code in (401, 403):
            how = "requires credentials" if self.authorization is None else "does not accept these credentials"
            hint = f"set {USER_INFO} to user:password, or {TOKEN} to a bearer token, of a user who may read schemas"
            return RegistryError(f"the Schema Registry {self.url} {how} (HTTP {error.code})", hint=hint)
        if 300 <= error.code < 400:
            return RegistryError(
                f"{self.url}{path} redirects to {error.headers.get('Location')} (HTTP {error.code})",
                hint="credentials are sent to the registry that the spec names and to no other: name the right URL",
            )
        return RegistryError(
            f"the Schema Registry {self.url} refuses {path}: HTTP {error.code}, {_message(error)[1]}",
            hint="check the URL, and the subject and ids in the spec",
        )


def authorization(environment: Mapping[str, str] = os.environ) -> str | None:
    """The value of the Authorization header; None: nothing is set. Raises RegistryError for two ways at once."""
    user_info, token = (environment.get(name, "").strip() for name in (USER_INFO, TOKEN))  # files end with a newline
    if user_info and token:
        raise RegistryError(
            f"{USER_INFO} and {TOKEN} are both set", hint="unset the one that the registry does not use"
        )
    if not (token.isascii() and token.isprintable()):
        raise RegistryError(
            f"{TOKEN} holds characters that a header cannot", hint="set it to the token alone, on one line"
        )
    if token:
        return f"Bearer {token}"
    if user_info and ":" not in user_info:
        raise RegistryError(f"{USER_INFO} has no colon", hint="set it to user:password, or to key:secret")
    return "Basic " + base64.b64encode(user_info.encode()).decode() if user_info else None


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: urllib would send the credentials to any host that a redirect names."""

    def redirect_request(  # noqa: PLR0917 - urllib's
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        return None


def _before(end: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises. Raises TimeoutError at `end`: urllib's own limit is for each read."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(max(end - time.monotonic(), 0))


def _message(error: HTTPError) -> tuple[int | None, str]:
    """The registry's own error code and message, where the response has them."""
    try:
        content = json.loads(error.read(MAX_BYTES))
        return content["error_code"], str(content["message"])
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return None, error.reason


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)
