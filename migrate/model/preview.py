"""Keys and values as people read them: as text where they are one, else in hex, and what differs of two of them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence

from migrate.model.display import UNPRINTABLE
from migrate.model.values import Value

LONGEST = 256
"""Bytes shown of one key or value."""
DOTS = "..."
"""For what is left out of a key or value."""


def shown(data: bytes, start: int = 0) -> Shown:
    """256 bytes of `data`, from `start` on, in hex and as text, with dots for what is left out.

    In the text each character that is not printable, and each byte that is not UTF-8, is a middle dot.
    """
    start = next((at for at in range(start, max(start - 4, -1), -1) if _may_begin(data[at : at + 1])), start)
    cut = data[start : start + LONGEST]
    before, after = DOTS if start else "", DOTS if len(data) > start + LONGEST else ""
    return Shown(size=len(data), hex=before + cut.hex() + after, text=before + _text(cut) + after)


def shown_beside(one: bytes, other: bytes) -> tuple[Shown, Shown]:
    """Both, cut where they first differ."""
    start = _start(one, other, LONGEST) & -4  # for hex in groups
    return shown(one, start), shown(other, start)


def cut_beside(one: str, other: str, longest: int) -> tuple[str, str]:
    """Both texts, cut to this many characters where they first differ, with dots for what is left out."""
    start = _start(one, other, longest)
    return _cut(one, start, longest), _cut(other, start, longest)


def hex_beside(one: Shown, other: Shown, longest: int) -> tuple[str, str]:
    """The digits of both, cut between bytes where they first differ."""
    start = _start(one.hex.strip("."), other.hex.strip("."), longest) & -2
    return _cut_hex(one.hex, start, longest & -2), _cut_hex(other.hex, start, longest & -2)


def shared(one: Sequence[object], other: Sequence[object]) -> int:
    """The length of what both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _start(one: Sequence[object], other: Sequence[object], longest: int) -> int:
    """Where to begin, so that the first difference is among the first `longest`: 0 where it is without that."""
    at = shared(one, other)
    return 0 if one == other or at < longest // 2 else at - longest // 4


def _cut(text: str, start: int, longest: int) -> str:
    return (DOTS if start else "") + text[start : start + longest] + (DOTS if len(text) > start + longest else "")


def _cut_hex(shown: str, start: int, longest: int) -> str:
    digits = shown.strip(".")
    before = DOTS if start or shown.startswith(DOTS) else "0x"
    after = DOTS if len(digits) > start + longest or shown.endswith(DOTS) else ""
    return before + digits[start : start + longest] + after


def _may_begin(byte: bytes) -> bool:
    """Whether a character of UTF-8 may begin with it, which has three others at most."""
    return not byte or byte[0] & 0xC0 != 0x80


def _text(data: bytes) -> str:
    """UTF-8 as text; of other bytes only the ASCII parts, since random bytes decode to letters of any script."""
    try:
        characters = getincrementaldecoder("utf-8")().decode(data)  # the cut may have split the last one
    except UnicodeDecodeError:
        characters = data.decode("ascii", "replace")
    plain = (one if one.isprintable() and one != "\N{REPLACEMENT CHARACTER}" else UNPRINTABLE for one in characters)
    return "".join(plain)


class Shown(Value):
    """One key or value, in hex and as text, each 256 bytes at most; dots stand for what is left out."""

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
