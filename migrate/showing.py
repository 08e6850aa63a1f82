"""Keys and values as a person reads them: in hex and as text."""

from __future__ import annotations

from codecs import getincrementaldecoder

from migrate.dry_run.report import Shown

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
