"""Trying a conversion on one record: twice, since a chunk may be converted again at any time (I2)."""

from __future__ import annotations

from dataclasses import dataclass

from formats import Conversion, EntryError
from formats.applying import said_by
from migrate.errors import RefusedError
from migrate.keyrange import show_key
from migrate.plan_model import Lane

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


@dataclass(slots=True)
class TargetLikeness:
    """Whether records may be what they are to become already, where neither place nor layout tells (I10)."""

    conversion: Conversion
    seen: int = 0
    fitting: int = 0
    changed: int = 0

    def look(self, lane: Lane, old: tuple[bytes, bytes], new: tuple[bytes, bytes] | None) -> None:
        """One record and what it becomes."""
        if lane.source != lane.target or self._is_told_apart:
            return
        self.seen += 1
        self.changed += new is not None and new != old
        try:
            self.conversion.target.decode(*old)
        except EntryError:
            return
        self.fitting += 1

    @property
    def _is_told_apart(self) -> bool:
        """By another system's directories, or by records that hold no more than before; what a function does nobody
        knows."""
        source, target = self.conversion.source, self.conversion.target
        is_same = source.id == target.id and self.conversion.changes_payloads
        holds_more = source.system == target.system and bool(target.carries - source.carries)
        return not (is_same or holds_more) or self.conversion.function is not None

    def check(self, where: str) -> None:
        """Raises RefusedError where every record fits, and would be changed."""
        if self.changed and self.fitting == self.seen:
            raise RefusedError(
                f"each of {self.seen} sampled records of {where} could be one of the new form already: was this store "
                "migrated before?",
                hint=f'if it was not, say so: [conversion] allow = ["{LOOKS_CONVERTED}"]',
            )


def none_converted(where: str, count: int, first: str, conversion: Conversion) -> RefusedError:
    """The refusal where no record of a sample could be converted."""
    return RefusedError(
        f"none of {count} sampled records of {where} can be converted from "
        f"{conversion.source.id} to {conversion.target.id}; the first one, {first}",
        hint="is [source] format the format that the store has?"
        + (" does the function fit its records?" if conversion.function is not None else ""),
    )
