"""`json`: JSON text in UTF-8.

Read and written by Python's `json`: keys keep their order, separators are compact (`,` and `:`), what is not ASCII is
written as it is. What has the same meaning may have other bytes: spaces go, `\\u00e9` becomes `é`, `1.0e1` becomes
`10.0` (a float is written as the shortest text that reads back as the same double, so digits beyond a double's are
lost; integers keep all of theirs). Refused, because a reader could not tell what was meant: NaN and the infinities,
a key twice in one object, numbers beyond a double's range, half a surrogate pair.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from formats.errors import InvalidEntryError


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """Any JSON value; `decode(encode(decode(b))) == decode(b)`, but the bytes may change."""

    name: str = "json"

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401
        """The value of JSON text. Raises InvalidEntryError for what is not JSON in UTF-8, with the place."""
        try:
            text = payload.decode()
            return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)
        except UnicodeDecodeError as error:
            raise InvalidEntryError(f"JSON that is not UTF-8: {error.reason} at byte {error.start}") from error
        except json.JSONDecodeError as error:
            raise InvalidEntryError(f"not JSON: {error.msg} at character {error.pos}") from error
        except RecursionError as error:
            raise InvalidEntryError("JSON that is nested too deep") from error
        except ValueError as error:  # more digits than Python converts
            raise InvalidEntryError(f"not JSON that can be read: {error}") from error

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """The JSON text of a value. Raises InvalidEntryError for what JSON cannot hold."""
        try:
            _check_keys(payload)
            return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError) as error:
            raise InvalidEntryError(f"cannot be written as JSON: {error}") from error
        except RecursionError as error:
            raise InvalidEntryError("cannot be written as JSON: it is nested too deep") from error


def _no_constant(name: str) -> NoReturn:
    raise InvalidEntryError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidEntryError(f"{text} is more than a double can hold")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InvalidEntryError(f"the key {name!r} is in one object twice")
            seen.add(name)
    return found


def _check_keys(payload: object) -> None:
    """`json.dumps` writes the keys 1, None and True as text, which may be there already."""
    if isinstance(payload, dict):
        for key, value in payload.items():
            if not isinstance(key, str):
                raise InvalidEntryError(f"a key of a JSON object is text, not {type(key).__name__}")
            _check_keys(value)
    elif isinstance(payload, list | tuple):
        for value in payload:
            _check_keys(value)
