"""Keys and values as a person reads them: in hex and as text."""

from __future__ import annotations

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
    """A byte that belongs to no character decodes to a lone surrogate, which is not printable."""
    characters = data.decode("utf-8", errors="surrogateescape")
    return "".join(character if character.isprintable() else UNPRINTABLE for character in characters)
