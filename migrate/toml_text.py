"""Values as TOML writes them."""

from __future__ import annotations

from collections.abc import Iterable

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def toml_string(text: str) -> str:
    """A basic string, on one line. Raises ValueError for what no TOML file can hold: half of a surrogate pair."""
    text.encode("utf-8")
    return f'"{"".join(map(_character, text))}"'


def toml_strings(texts: Iterable[str]) -> str:
    """An array of strings, on one line."""
    return f"[{', '.join(map(toml_string, texts))}]"


def _character(character: str) -> str:
    """What is not printable is escaped, so that no comment can end early and no reader is misled."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
