"""Where two values of one key differ first, in the words of their format."""

from __future__ import annotations

from collections.abc import Iterator

from formats import EntryError, Format
from migrate.keyrange import show_key

_LONGEST = 200
_FIELDS = ("timestamp_ms", "headers", "value", "history")


def first_difference(target: Format, key: bytes, expected: bytes, actual: bytes) -> tuple[str, str, str]:
    """(the field, what it should be, what it is); a field within a value by its path, like `value.items[2].price`."""
    try:
        wanted, got = target.decode(key, expected), target.decode(key, actual)
    except EntryError as error:
        return "value", show_key(expected), f"{show_key(actual)} ({error})"
    for field in _FIELDS:
        left, right = getattr(wanted, field), getattr(got, field)
        if left != right:
            path, left, right = _within(field, left, right)
            return path, _show(left), _show(right)
    return "value", show_key(expected), show_key(actual)


def _within(path: str, left: object, right: object) -> tuple[str, object, object]:
    """The innermost part that differs."""
    for name, one, other in _parts(left, right):
        if one != other:
            return _within(f"{path}{name}", one, other)
    return path, left, right


def _parts(left: object, right: object) -> Iterator[tuple[str, object, object]]:
    """What both have, where they have the same parts."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        yield from ((f".{name}", left[name], right[name]) for name in left)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        yield from ((f"[{at}]", one, other) for at, (one, other) in enumerate(zip(left, right, strict=True)))


def _show(field: object) -> str:
    if isinstance(field, bytes):
        return show_key(field)
    text = repr(field)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
