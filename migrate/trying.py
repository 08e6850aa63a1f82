"""Trying a conversion on one record: twice, since a chunk may be converted again at any time (I2)."""

from __future__ import annotations

from collections.abc import Sequence

from formats import Conversion
from formats.applying import said_by
from formats.likeness import FormatSample
from migrate.errors import RefusedError
from migrate.keyrange import show_key

Entry = tuple[bytes, bytes]
"""A key and its value, as they lie in a store."""
LOOKS_CONVERTED = "looks-converted"
"""In `allow`: records that could be of the new form are of the old one."""


def convert_twice(conversion: Conversion, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    """What it becomes; None: dropped. Raises EntryError for a reject, RefusedError where two results differ."""
    if conversion.function is None:  # it is ours, and pure
        return conversion.convert(key, value)
    try:
        first, second = conversion.convert(key, value), conversion.convert(key, value)
    except OSError as error:
        raise RefusedError(
            f"the function cannot reach what it needs: for the key {show_key(key)} it raised {said_by(error)}",
            hint="put that where the function looks for it; a file that lies beside the spec it finds by "
            "Path(__file__), and [conversion] files names it",
        ) from error
    if first != second:
        raise RefusedError(
            f"the function is not pure: it gave two results for the key {show_key(key)}",
            hint="a chunk may be converted again at any time: no clock, no random numbers, no state between records",
        )
    return first


def check_not_converted(conversion: Conversion, pairs: Sequence[tuple[Entry, Entry | None]], where: str) -> None:
    """Sampled records and what they become, where neither place nor column family tells old from new (I10).

    Raises RefusedError where every record decodes as the target's format, and one would be changed.
    """
    if not _holds_more(conversion) or all(new in (None, old) for old, new in pairs):
        return
    sample = FormatSample(conversion.target)
    for old, _ in pairs:
        sample.add(*old, now_ms=0)
    if sample.decoded == sample.sampled:
        raise RefusedError(
            f"each of {sample.sampled} sampled records of {where} could be one of the new form already: was this store "
            "migrated before?",
            hint=f'if it was not, say so: [conversion] allow = ["{LOOKS_CONVERTED}"]',
        )


def _holds_more(conversion: Conversion) -> bool:
    """Whether a converted record could be converted once more; what a function does is not known."""
    source, target = conversion.source, conversion.target
    is_same = source.id == target.id and conversion.changes_payloads
    carries_more = source.system == target.system and bool(target.carries - source.carries)
    return (is_same or carries_more) and conversion.function is None


def none_converted(where: str, count: int, first: str, conversion: Conversion) -> RefusedError:
    """The refusal where no record of a sample could be converted."""
    return RefusedError(
        f"none of {count} sampled records of {where} can be converted from "
        f"{conversion.source.id} to {conversion.target.id}; the first one, {first}",
        hint="is [source] format the format that the store has?"
        + (" does the function fit its records?" if conversion.function is not None else ""),
    )
