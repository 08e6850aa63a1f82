"""Numbers as a person reads them."""

from __future__ import annotations

import time

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_in_words(size: float) -> str:
    """154 bytes, 1.5 MiB."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes everything")


def seconds_in_words(seconds: float) -> str:
    """0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    if not minutes:
        return f"{left} s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {left} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"


def count_in_words(count: int, what: str) -> str:
    """1 slot, 2 slots."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def moment(milliseconds: int) -> str:
    """Local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))
