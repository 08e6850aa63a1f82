"""`json`: JSON text in UTF-8.

Without a function the bytes stay as they are, and are only checked. With one, Python's `json` reads and writes them:
keys keep their order, separators are compact (`,` and `:`), what is not ASCII is written as it is, so spaces go and
`\\u00e9` becomes `é`. A number keeps its text: one that Python would write otherwise (`14.7600`, `1e-400`, `-0`, more
digits than a double's) is read as a `WrittenFloat` or a `WrittenInt`, which are ordinary numbers in arithmetic.
Refused, because a reader could not tell what was meant: NaN and the infinities, a key twice in one object, numbers
beyond a double's range, half a surrogate pair.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from formats.errors import InvalidEntryError


class WrittenFloat(float):
    """A float that is written with the text that it was read from."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> WrittenFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[WrittenFloat], tuple[str]]:
        return WrittenFloat, (self.text,)


class WrittenInt(int):
    """The only integer whose text Python would not repeat: `-0`."""

    text = "-0"

    def __repr__(self) -> str:
        return self.text


WRITTEN = frozenset({WrittenFloat, WrittenInt})


class NumberText:
    """A number's text, in place of the number where JSON is written: `json.dumps` asks no subclass for its text.

    No dataclass: pydantic would write its fields.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberText) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


def load_json(text: str, **hooks: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """The value of a text, whose numbers keep their text. Raises what `json.loads` raises, InvalidEntryError."""
    return json.loads(text, parse_float=_float, parse_int=_int if "-0" in text else None, **hooks)


def with_texts(value: object) -> Any:  # noqa: ANN401
    """A value with NumberText in it, for `dump_json`."""
    if isinstance(value, dict):
        return {name: with_texts(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(each) for each in value]
    return NumberText(value.text) if isinstance(value, WrittenFloat | WrittenInt) else value


_TOKEN = secrets.token_hex(16)
"""Stands for a number's text until it is put in; no value can hold it but by guessing."""


def dump_json(value: object, default: Callable[[Any], Any] | None = None, **options: Any) -> str:  # noqa: ANN401
    """As `json.dumps`, of a value with NumberText in it."""
    texts: list[str] = []

    def token(found: object) -> object:
        if isinstance(found, NumberText):
            texts.append(found.text)
            return _TOKEN
        if default is None:
            raise TypeError(f"Object of type {type(found).__name__} is not JSON serializable")
        return default(found)

    pieces = json.dumps(value, default=token, **options).split(f'"{_TOKEN}"')
    return "".join(part for pair in zip(pieces, (*texts, ""), strict=True) for part in pair)


@dataclass(frozen=True, slots=True)
class Checked:
    """A payload that was found to be JSON: without a function it need not become an object."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """Any JSON value; `decode(encode(decode(b))) == decode(b)`, but the bytes may change."""

    name: str = "json"
    is_only_checked: bool = field(default=False, compare=False)
    """Payloads become no objects, and so stay as they are."""

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401
        try:
            text = payload.decode()
            value = load_json(text, parse_constant=_no_constant, object_pairs_hook=_unique)
            return Checked(payload) if self.is_only_checked else value
        except UnicodeDecodeError as error:
            raise InvalidEntryError(f"JSON that is not UTF-8: {error.reason} at byte {error.start}") from error
        except json.JSONDecodeError as error:
            raise InvalidEntryError(f"not JSON: {error.msg} at character {error.pos}") from error
        except RecursionError as error:
            raise InvalidEntryError("JSON that is nested too deep") from error
        except ValueError as error:  # more digits than Python converts
            raise InvalidEntryError(f"not JSON that can be read: {error}") from error

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if isinstance(payload, Checked):
            return payload.payload
        try:
            has_texts = _checked(payload)
            options: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
            text = dump_json(with_texts(payload), **options) if has_texts else json.dumps(payload, **options)
            return text.encode()
        except (TypeError, ValueError) as error:
            raise InvalidEntryError(f"cannot be written as JSON: {error}") from error
        except RecursionError as error:
            raise InvalidEntryError("cannot be written as JSON: it is nested too deep") from error


def _no_constant(name: str) -> NoReturn:
    raise InvalidEntryError(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if repr(number) == text:
        return number
    if not math.isfinite(number):
        raise InvalidEntryError(f"{text} is more than a double can hold")
    return WrittenFloat(text)


def _int(text: str) -> int:
    return WrittenInt() if text == "-0" else int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InvalidEntryError(f"the key {name!r} is in one object twice")
            seen.add(name)
    return found


def _checked(payload: object) -> bool:
    """Whether there are numbers with texts. `json.dumps` writes the keys 1, None and True as text: raises for such."""
    if isinstance(payload, dict):
        for key in payload:
            if not isinstance(key, str):
                raise InvalidEntryError(f"a key of a JSON object is text, not {type(key).__name__}")
        return any([_checked(value) for value in payload.values()])
    if isinstance(payload, list | tuple):
        return any([_checked(value) for value in payload])
    return type(payload) in WRITTEN
