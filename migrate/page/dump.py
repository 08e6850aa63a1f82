"""Keys and values in hex, with what differs between two of them marked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from migrate.dry_run.report import Shown

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_GROUP = 4
"""Bytes that stand together."""

Run = tuple[str, bool]
"""Digits, in groups, and whether they are marked."""


def plain(shown: Shown) -> list[Run]:
    """Nothing marked."""
    return _runs(shown.hex, (0, 0))


def marked(shown: Shown, other: Shown) -> list[Run]:
    """Marked is what lies between the beginning and the end that both share; nothing where one of them was cut."""
    if not (_is_whole(shown) and _is_whole(other)):
        return plain(shown)
    mine, theirs = shown.hex, other.hex
    shorter = min(len(mine), len(theirs)) // 2
    head = next((at for at in range(shorter) if _byte(mine, at) != _byte(theirs, at)), shorter)
    tail = next((at for at in range(shorter - head) if _byte(mine, -1 - at) != _byte(theirs, -1 - at)), shorter - head)
    return _runs(mine, (head, len(mine) // 2 - tail))


def _is_whole(shown: Shown) -> bool:
    return len(shown.hex) == 2 * shown.size and _HEX.fullmatch(shown.hex) is not None


def _byte(digits: str, at: int) -> str:
    start = 2 * at if at >= 0 else len(digits) + 2 * at
    return digits[start : start + 2]


def _runs(digits: str, changed: tuple[int, int]) -> list[Run]:
    start, end = (2 * at for at in changed)
    if not _HEX.fullmatch(digits):
        match = _HEX.match(digits)
        whole = match.end() if match else 0
        return [*_runs(digits[:whole], changed), (digits[whole:], False)]
    parts = ((0, start, False), (start, end, True), (end, len(digits), False))
    runs = []
    for first, last, is_marked in parts:
        if first < last:
            text = "".join(_grouped(digits, first, last))
            runs += [(text.rstrip(), is_marked), (text[len(text.rstrip()) :], False)]
    return [(text, is_marked) for text, is_marked in runs if text]


def _grouped(digits: str, first: int, last: int) -> Iterator[str]:
    """Digits from `first` to `last`, with a space after every fourth byte of the whole."""
    width = 2 * _GROUP
    at = first
    while at < last:
        until = min(last, (at // width + 1) * width)
        yield digits[at:until]
        if until % width == 0 and until < len(digits):
            yield " "
        at = until
