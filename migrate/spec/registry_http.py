"""GET requests to a Schema Registry: credentials from the environment, time limits, retries where they may help."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from migrate.errors import RegistryError

if TYPE_CHECKING:
    import httpx

USER_INFO = "STATEFERRY_REGISTRY_USER_INFO"
"""`user:password`, or a key and its secret: HTTP basic authentication."""
TOKEN = "STATEFERRY_REGISTRY_TOKEN"
"""A bearer token."""
ACCEPT = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
MAX_BYTES = 16 << 20
BASE_HINT = "check the URL: it is the API's base, without /subjects or /schemas"
T = TypeVar("T")
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_trusted = cache(ssl.create_default_context)
"""The certificate authorities of this system, or those of SSL_CERT_FILE."""
_NUMBER = re.compile(r"^\[Errno -?\d+\] ")
"""Of an error of the operating system, before its words."""


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
            except OSError as error:
                reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
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
        """The response's JSON, or NotFound. Raises OSError where a retry may help."""
        import httpx  # takes a tenth of a second

        # Confluent Cloud leaves out guid and schemaType unless the client accepts unknown keys.
        headers = {"Accept": ACCEPT, "Accept-Encoding": "identity", "Confluent-Accept-Unknown-Properties": "true"}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        seconds, trusted = self.tries.timeout_s, _trusted()
        try:
            with httpx.stream("GET", self.url + path, headers=headers, timeout=seconds, verify=trusted) as response:
                content = next(response.iter_raw(MAX_BYTES), b"")
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(_NUMBER.sub("", str(error)) or type(error).__name__) from error
        if response.status_code in _RETRIED:
            raise OSError(f"HTTP {response.status_code}")
        if response.status_code == 404:
            return NotFound(*_message(response, content))
        if not response.is_success:
            raise self._refusal(path, response, content)
        try:
            return json.loads(content)  # an answer that was cut off at MAX_BYTES is no JSON
        except (ValueError, RecursionError) as error:
            message = f"{self.url}{path} does not answer as a Schema Registry does"
            raise RegistryError(message, hint=BASE_HINT) from error

    def _refusal(self, path: str, response: httpx.Response, content: bytes) -> RegistryError:
        status = response.status_code
        if status in (401, 403):
            how = "requires credentials" if self.authorization is None else "does not accept these credentials"
            hint = f"set {USER_INFO} to user:password, or {TOKEN} to a bearer token, of a user who may read schemas"
            return RegistryError(f"the Schema Registry {self.url} {how} (HTTP {status})", hint=hint)
        if response.is_redirect:
            return RegistryError(
                f"{self.url}{path} redirects to {response.headers['location']} (HTTP {status})",
                hint="credentials are sent to the registry that the spec names and to no other: name the right URL",
            )
        return RegistryError(
            f"the Schema Registry {self.url} refuses {path}: HTTP {status}, {_message(response, content)[1]}",
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


def _before(end: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises. Raises TimeoutError at `end`: httpx's own limit is for each read."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(max(end - time.monotonic(), 0))


def _message(response: httpx.Response, content: bytes) -> tuple[int | None, str]:
    """The registry's own error code and message, where the response has them."""
    try:
        said = json.loads(content)
        return said["error_code"], str(said["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, response.reason_phrase
