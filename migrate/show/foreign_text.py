"""Makes control characters visible in keys, file names and exceptions before they reach a terminal.

Everything that the commands print passes through here: reports, before they become text, messages and JSON.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from migrate.model.units import one_line, visible
from migrate.model.values import is_model
from migrate.show.streams import is_utf8

T = TypeVar("T")
_BEFORE_A_BULLET = re.compile(r"\n(?=  - )")
"""Our own messages have no other line breaks."""
_WITHOUT_TEXT = {int, float, bool, bytes, type(None)}


def visible_message(text: str) -> str:
    """A message with invisible characters made visible, and no line breaks but those of its list."""
    if text.isprintable():
        return text
    return "\n".join(map(one_line, _BEFORE_A_BULLET.split(text)))


def visible_report(value: T, change: Callable[[str], str] = str) -> T:
    """A copy of a report, or of a part of one, with `change` and `visible_message` applied to every text."""
    kind: type = type(value)
    shown: Any = value
    if kind in _WITHOUT_TEXT:
        return value
    if kind is str:
        shown = visible_message(change(shown))
    elif is_model(kind):
        texts = ((name, part) for name, part in shown.__dict__.items() if type(part) not in _WITHOUT_TEXT)
        fields = ((name, part, visible_report(part, change)) for name, part in texts)
        changed = {name: made for name, part, made in fields if made is not part}
        shown = shown.model_copy(update=changed) if changed else value
    elif isinstance(value, Path):
        shown = Path(one_line(str(value)))
    elif isinstance(value, tuple | list):
        shown = type(value)(visible_report(part, change) for part in value)
    elif isinstance(value, dict):
        shown = {visible_report(name): visible_report(part, change) for name, part in value.items()}
    return shown  # type: ignore[no-any-return]


def visible_json(document: str) -> str:
    """The JSON document with control characters as escapes, so that its strings keep their values."""
    visible_lines = (line if line.isprintable() else _with_escapes(line) for line in document.split("\n"))
    return _as_utf8("\n".join(visible_lines), _escaped)


def printable_toml(document: str) -> str:
    """The TOML document, whose control characters are escapes already."""
    return _as_utf8(document, lambda character: f"\\U{ord(character):08x}")


def _as_utf8(document: str, escaped: Callable[[str], str]) -> str:
    """A document that can be read as UTF-8, whatever the encoding of standard output."""
    if document.isascii() or is_utf8(sys.stdout):
        return document
    return "".join(each if each.isascii() else escaped(each) for each in document)


def _with_escapes(line: str) -> str:
    return "".join(character if visible(character) == character else _escaped(character) for character in line)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
