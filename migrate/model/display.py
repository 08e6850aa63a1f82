"""Numbers, times and sizes formatted for people; keys and values in hex and as text."""

from __future__ import annotations

import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import islice

from migrate.model.values import Value

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
UNPRINTABLE = "\N{MIDDLE DOT}"
"""For a character of a key or value that is not printable, and for a byte that is no text."""
_JOINERS = "\u200c\u200d"
"""Zero-width joiners, which are part of the text in Persian or Hindi."""


def number(of: int) -> str:
    """An integer with separators: "1,234,567"."""
    return f"{of:,}"


def size(number: float) -> str:
    """A number of bytes to about three digits: "12.4 GiB"."""
    if abs(number) < 1024:
        return f"{number:,.0f} B"
    for unit in _UNITS:
        number /= 1024
        if abs(number) < 999.5 or unit == _UNITS[-1]:
            break
    digits = 0 if abs(number) >= 99.95 else 1
    return f"{number:,.{digits}f} {unit}"


def duration(seconds: float) -> str:
    """A duration in its two largest units: "2 h 5 min"."""
    if seconds <= 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{seconds * 1000:,.0f} ms"
    if seconds < 9.95:
        return f"{seconds:,.1f} s"
    whole = round(seconds)
    for length, unit, smaller_length, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= length:
            rest = whole % length // smaller_length
            return f"{whole // length:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def rate(per_second: float) -> str:
    """A rate in records per second: "1,200 records/s"."""
    return f"{per_second:,.0f} records/s" if per_second >= 10 else f"{per_second:,.2g} records/s"


def share(part: float) -> str:
    """A part of 1 in percent; "0 %" and "100 %" only where that is exact."""
    percent = 100 * part
    if 0 < percent < 0.05:
        return "< 0.1 %"
    if 99.95 <= percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent in (0, 100) else f"{percent:.1f} %"


def moment(milliseconds: int) -> str:
    """A time, given in milliseconds since the epoch, in UTC: a page may be read in another time zone."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms since 1970"


def plural(number: int, one: str, many: str = "") -> str:
    """The number and the noun: "1 chunk", "2,000 chunks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Collection[str], most: int) -> str:
    """The first names, with dots for those that are left out: "a, b, ..."."""
    return ", ".join([*islice(names, most), *(["..."] if len(names) > most else [])])


def visible(text: str) -> str:
    """The text with invisible characters made visible: controls, direction marks, surrogates."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def one_line(text: str) -> str:
    """The visible text on one line: a line break in a name or a reason could look like a line of our own."""
    return visible(text).translate(_BREAKS)


_BREAKS = {ord("\n"): "\u240a", ord("\t"): "\u2409"}


def _visible(character: str) -> str:
    if character in "\n\t" or character in _JOINERS:
        return character
    category = unicodedata.category(character)
    if category == "Cc":
        code = ord(character)
        return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"\u27e8{code:02X}\u27e9"
    if category in ("Cf", "Cs", "Cn", "Zl", "Zp"):
        return f"\u27e8U+{ord(character):04X}\u27e9"
    return character


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
    return "".join(character if _is_plain(character) else UNPRINTABLE for character in characters)


def _is_plain(character: str) -> bool:
    return character.isprintable() and character != "\N{REPLACEMENT CHARACTER}"


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
