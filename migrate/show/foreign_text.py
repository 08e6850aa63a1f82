"""Text of others (keys, file names, exceptions) on its way to a terminal, where it must not act, or pose as ours.

All that the commands print passes through here: reports as values before they become words, messages, JSON.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from migrate.model.units import one_line, visible

T = TypeVar("T")
_BEFORE_A_BULLET = re.compile(r"\n(?=  - )")
"""The only line breaks that our own messages have."""


def visible_message(text: str) -> str:
    """A message with all that cannot be seen made visible; it has no lines but those of its list."""
    return "\n".join(map(one_line, _BEFORE_A_BULLET.split(text)))


def visible_report(value: T) -> T:
    """The same report, or part of one, with every text in it as `visible_message` makes it."""
    shown: Any = value
    if isinstance(value, str):
        shown = visible_message(value) if type(value) is str else value
    elif isinstance(value, Path):
        shown = Path(one_line(str(value)))
    elif isinstance(value, BaseModel):
        fields = ((name, part, visible_report(part)) for name, part in value)
        changed = {name: made for name, part, made in fields if made is not part}
        shown = value.model_copy(update=changed) if changed else value
    elif isinstance(value, tuple | list):
        shown = type(value)(map(visible_report, value))
    elif isinstance(value, dict):
        shown = {visible_report(name): visible_report(part) for name, part in value.items()}
    return shown  # type: ignore[no-any-return]


def visible_json(document: str) -> str:
    """The same JSON, with what a terminal would act upon as escapes; its strings are what they were."""
    if document.isprintable():
        return document
    return "".join(character if visible(character) == character else _escaped(character) for character in document)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
