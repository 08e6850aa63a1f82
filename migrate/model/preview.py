"""Keys and values as a person reads them: in hex and as text."""

from __future__ import annotations

from codecs import getincrementaldecoder

from migrate.model.values import Value

LONGEST = 256
"""Bytes shown of one key or value."""
UNPRINTABLE = "\N{MIDDLE DOT}"


def shown(data: bytes) -> Shown:
    """`data` in hex and as text, both cut off after 256 bytes.

    What is not printable, or not UTF-8, is a middle dot in the text: one for each such character or byte.
    """
    cut = data[:LONGEST]
    dots = "..." if len(data) > LONGEST else ""
    return Shown(size=len(data), hex=cut.hex() + dots, text=_text(cut) + dots)


def _text(data: bytes) -> str:
    """Text as text; in what is not UTF-8 the ASCII parts alone, since chance makes letters of any script there."""
    try:
        characters = getincrementaldecoder("utf-8")().decode(data)  # the cut may have split the last one
    except UnicodeDecodeError:
        characters = data.decode("ascii", "replace")
    return "".join(character if _is_plain(character) else UNPRINTABLE for character in characters)


def _is_plain(character: str) -> bool:
    return character.isprintable() and character != "\N{REPLACEMENT CHARACTER}"


class Shown(Value):
    """One key or value: all of it in hex, unless that is longer than 256 bytes, and as text."""

    size: int
    hex: str
    text: str
    """Printable characters as they are, others as a middle dot."""


class RejectExample(Value):
    """A record that cannot be converted."""

    store_partition: str
    family: str
    key: Shown
    value: Shown
    reason: str


class RejectReason(Value):
    """Records that cannot be converted for one reason."""

    reason: str
    records: int
    examples: tuple[RejectExample, ...]
    """At most three."""
