"""Trying a conversion on one record: twice, since a chunk may be converted again at any time (I2)."""

from __future__ import annotations

from formats import Conversion
from migrate.errors import RefusedError
from migrate.keyrange import show_key


def convert_twice(conversion: Conversion, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    """What it becomes; None: dropped. Raises EntryError for a reject, RefusedError where two results differ."""
    first = conversion.convert(key, value)
    if conversion.function is None:  # it is ours, and pure
        return first
    second = conversion.convert(key, value)
    if first != second:
        raise RefusedError(
            f"the function is not pure: it gave two results for the key {show_key(key)}",
            hint="a chunk may be converted again at any time: no clock, no random numbers, no state between records",
        )
    return first


def none_converted(where: str, count: int, first: str, conversion: Conversion) -> RefusedError:
    """The refusal where no record of a sample could be converted."""
    return RefusedError(
        f"none of {count} sampled records of {where} can be converted from "
        f"{conversion.source.id} to {conversion.target.id}; the first one, {first}",
        hint="is [source] format the format that the store has? does the function fit its records?",
    )
