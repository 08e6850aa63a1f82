"""Numbers, times, sizes and names as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from datetime import UTC, datetime
from itertools import islice

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


def moments(first_ms: int, last_ms: int) -> str:
    """The first and the last of some times, or the only one."""
    return moment(first_ms) if first_ms == last_ms else f"{moment(first_ms)} to {moment(last_ms)}"


def plural(number: int, one: str, many: str = "") -> str:
    """The number and the noun: "1 chunk", "2,000 chunks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Collection[str], most: int) -> str:
    """The first names, with dots for those that are left out: "a, b, ..."."""
    return ", ".join([*islice(names, most), *(["..."] if len(names) > most else [])])


def beginning(text: str, most: int) -> str:
    """The text, or its first characters with dots for the others."""
    return text if len(text) <= most else f"{text[:most]}..."


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
