"""Keys and values as JSON, and keys from the text of a path.

| serde             | in JSON                                           | in a path                                  |
|-------------------|---------------------------------------------------|--------------------------------------------|
| `bytes`           | base64, with padding                              | base64 or base64url                        |
| `string`, `uuid`  | text                                              | the same text, percent-encoded             |
| `int16` to `int64` | a number with all of its digits                  | its digits                                 |
| `float`, `double` | a number; `"NaN"`, `"Infinity"` or `"-Infinity"`  | the same                                   |
| `boolean`         | `true` or `false`                                 | the same                                   |
| `list`            | a list of what its inner serde reads              | JSON text, of lists without bytes or UUIDs |
| `json`            | the value itself, numbers as they are stored      | its JSON text, percent-encoded             |
| `avro`            | objects, enums as symbols, bytes as base64        | JSON text, of keys without bytes           |

Of Avro, a logical type is what lies beneath it: a date is a number of days, a decimal the base64 of its bytes. Where
only the name tells a union's branch, its value is `{name: value}`.

With `encoding=base64url` or `hex` a path holds the serialized key of any serde; with `encoding=text` that of `bytes`
is text in UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from formats import Serde
from formats.errors import EntryError, InvalidEntryError
from formats.serdes.json_text import JsonSerde, NumberText, WrittenFloat, WrittenInt, dump_json
from migrate.errors import SpecError

T = TypeVar("T")
ENCODINGS = ("text", "hex", "base64url", "base64")
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_DIGITS = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_AS_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_AS_ASCII = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def as_json(value: object) -> Any:  # noqa: ANN401 - any value of JSON
    """A key or a value, as its serde read it, as JSON can write it."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, tuple):  # the branch of a union, which its value does not tell
        return {value[0]: as_json(value[1])}
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    if isinstance(value, WrittenFloat | WrittenInt):
        return NumberText(value.text)
    return value if value is None or isinstance(value, str | int | float) else str(value)


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_bytes(value: object) -> bytes:
    """JSON text in UTF-8 of what `as_json` returned, without spaces."""
    try:
        return _AS_TEXT.encode(value).encode()
    except TypeError:  # a number that keeps its text; else it raises again
        text = dump_json(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a surrogate pair, which JSON text can only escape
        return _AS_ASCII.encode(value).encode()


def key_of(serde: Serde, text: str, encoding: str | None = None) -> Any:  # noqa: ANN401 - the serde's type
    """The key that the text of a path stands for, in one of ENCODINGS. Raises EntryError, with the reason."""
    if encoding == "hex":
        return serde.decode(_from_hex(text.removeprefix("0x")))
    if encoding in ("base64", "base64url") or (encoding is None and serde.name == "bytes"):
        return serde.decode(_from_base64(text))
    if serde.name == "bytes":
        return text.encode()
    key = _READ.get(serde.name, str)(text)
    serde.encode(key)  # a number that is too large, an object of another schema
    return key


def serialized_key(serde: Serde, text: str, encoding: str | None = None) -> bytes:
    """The key that a person's text stands for, as `serde` writes it; of bytes: text in UTF-8, or 0x and hex digits.

    `encoding`: one of ENCODINGS. Raises SpecError.
    """
    try:
        if serde.name == "bytes" and encoding is None:
            return bytes.fromhex(text[2:]) if _HEX.fullmatch(text) else text.encode()
        return serde.encode(key_of(serde, text, encoding))
    except EntryError as error:
        raise SpecError(shown_problem(error, text), hint=f"its serde is {serde.name!r}") from error


def how_read(serde: Serde, encoding: str | None) -> str:
    """How `key_of` reads a text."""
    if encoding is None:
        return "base64url" if serde.name == "bytes" else f"a key of {serde.name!r}"
    return "text" if encoding == "text" else f"a serialized key in {encoding}"


def _read_by(read: Callable[[str], T], problem: str) -> Callable[[str], T]:
    def found(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise InvalidEntryError(problem) from error

    return found


def _from_base64(text: str) -> bytes:
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        found = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidEntryError(f"not base64: {error}") from error
    if base64.b64encode(found).rstrip(b"=") != plain.encode():
        raise InvalidEntryError("not base64: the last character has bits that belong to no byte")
    return found


def _integer(text: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise InvalidEntryError("not a whole number")
    return int(text)


_from_hex = _read_by(bytes.fromhex, "not hex digits, two for each byte")
_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int16", "int32", "int64"), _integer),
    **dict.fromkeys(("float", "double"), _read_by(float, "not a number")),
    **dict.fromkeys(("json", "avro", "list", "boolean"), lambda text: JsonSerde().decode(text.encode())),
    "uuid": _read_by(UUID, "not the text of a UUID"),
}


def shown_problem(error: EntryError, text: str) -> str:
    """The reason why a text is no key, with the beginning of the text."""
    return f"{text[:60] + '...' if len(text) > 60 else text!r} is not a key of this store: {error}"
