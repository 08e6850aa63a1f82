"""Keys and values in hex, with what differs between two of them marked."""

from __future__ import annotations

from migrate.model.preview import Shown

_GROUP = 8
"""Digits that stand together: four bytes."""
Run = tuple[str, bool]
"""Digits, in groups, and whether they are marked."""


def plain(shown: Shown) -> list[Run]:
    """Nothing marked."""
    return _runs(shown.hex, 0, 0)


def marked(shown: Shown, other: Shown) -> list[Run]:
    """Marked is what lies between the beginning and the end that both share; nothing where one of them was cut."""
    try:
        mine, theirs = bytes.fromhex(shown.hex), bytes.fromhex(other.hex)
    except ValueError:  # cut: it ends with dots
        return plain(shown)
    head = _shared(mine, theirs)
    tail = _shared(mine[head:][::-1], theirs[head:][::-1])
    return _runs(shown.hex, 2 * head, 2 * (len(mine) - tail))


def _shared(mine: bytes, theirs: bytes) -> int:
    """How many bytes both begin with."""
    pairs = zip(mine, theirs, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(mine), len(theirs)))


def _runs(digits: str, start: int, end: int) -> list[Run]:
    """Marked from `start` to `end`, with a space after every group of the whole."""
    runs = []
    for first, last, is_marked in ((0, start, False), (start, end, True), (end, len(digits), False)):
        spaced = "".join(f"{digits[at]} " if at % _GROUP == _GROUP - 1 else digits[at] for at in range(first, last))
        text = spaced if last < len(digits) else spaced.rstrip()
        runs += [(text.rstrip(), is_marked), (text[len(text.rstrip()) :], False)]
    return [(text, is_marked) for text, is_marked in runs if text]
