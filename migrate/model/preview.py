"""Keys and values for people: in hex and as text."""

from __future__ import annotations

from codecs import getincrementaldecoder

from migrate.model.values import Value

LONGEST = 256
"""Bytes shown of one key or value."""
UNPRINTABLE = "\N{MIDDLE DOT}"


def shown(data: bytes) -> Shown:
    """`data` in hex and as text, both cut off after 256 bytes.

    In the text each character that is not printable, and each byte that is not UTF-8, is a middle dot.
    """
    cut = data[:LONGEST]
    dots = "..." if len(data) > LONGEST else ""
    return Shown(size=len(data), hex=cut.hex() + dots, text=_text(cut) + dots)


def _text(data: bytes) -> str:
    """UTF-8 as text; of other bytes only the ASCII parts, since random bytes decode to letters of any script."""
    try:
        characters = getincrementaldecoder("utf-8")().decode(data)  # the cut may have split the last one
    except UnicodeDecodeError:
        characters = data.decode("ascii", "replace")
    return "".join(character if _is_plain(character) else UNPRINTABLE for character in characters)


def _is_plain(character: str) -> bool:
    return character.isprintable() and character != "\N{REPLACEMENT CHARACTER}"


class Shown(Value):
    """One key or value, in hex and as text, each cut off after 256 bytes."""

    size: int
    hex: str
    text: str
    """Printable characters; others are shown as a middle dot."""


def shown_key(key: Shown) -> str:
    """The key for messages: as text if all of it is printable, else in hex."""
    return f"0x{key.hex}" if UNPRINTABLE in key.text else f'"{key.text}"'


class RejectExample(Value):
    """A record that cannot be converted."""

    store_partition: str
    family: str
    key: Shown
    value: Shown
    reason: str
    chunk: int | None = None
    """The number of its chunk; null: unknown, or in a sample."""


class RejectReason(Value):
    """The records that cannot be converted for one reason, at one place of the function."""

    reason: str
    """Each number in it is shown as `#` where reasons differ in their numbers alone."""
    records: int
    examples: tuple[RejectExample, ...]
    """At most three."""
    place: str = ""
    """File and line of the function's exception; empty: a format or a serde rejects the records, or it is unknown."""
    ended_run: bool = False
    """Whether this is the record at which a run stopped, with `[run] on_reject = "fail"` or beyond `max_rejects`."""
