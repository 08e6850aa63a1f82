"""Records that are left out on purpose: dropped by the user's function, or not carried by the new format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from migrate.errors import DroppedError
from migrate.model.display import plural
from migrate.model.key_range import show_key
from migrate.model.preview import Shown, shown, shown_key

FIRST_KEYS = 3
WAY_TO_ALLOW = (
    'if they are meant to go, allow it: [conversion] allow = ["drop"] (in code: may_drop=True), or up to a number or a '
    "share, [run] max_dropped or max_dropped_share; the same command goes on then"
)
WAY_ON = f"does the function lack a return? fix it, then stateferry replay SPEC goes on; {WAY_TO_ALLOW}"


def dropped_in_words(dropped: int, kept: int, keys: Iterable[Shown]) -> str:
    """How many records the function dropped, and how many it kept, with the first keys; empty: it dropped none."""
    if not dropped:
        return ""
    was, first = "was" if dropped == 1 else "were", ", ".join(map(shown_key, keys))
    counts = f"{plural(dropped, 'record')} {was} dropped by the function, {kept:,} kept"
    return f"{counts}; the first keys: {first}" if first else counts


@dataclass(slots=True)
class LeftOut:
    """Counts the records that have no counterpart; past the limit of dropped ones it ends the work."""

    where: str = ""
    limit: int | None = None
    """Of values that the function may drop; None: any number."""
    dropped: int = 0
    """Values that the function dropped: records, and former values of keys of a versioned store."""
    entries_dropped: int = 0
    """Stored entries without a counterpart because of that."""
    not_carried: int = 0
    """Entries that the new format does not carry: former values, and keys of the owning system's own."""
    keys: list[bytes] = field(default_factory=list)
    """The first keys of dropped values."""

    def add(self, key: bytes, dropped: int, *, is_written: bool) -> None:
        """Count an entry of which `dropped` values are gone. Raises DroppedError past the limit."""
        self.dropped += dropped
        if not is_written:
            self.entries_dropped += bool(dropped)
            self.not_carried += not dropped
        if dropped and len(self.keys) < FIRST_KEYS:
            self.keys.append(key)
        if dropped and self.limit is not None and self.dropped > self.limit:
            keys = ", ".join(map(show_key, self.keys))
            allowed = f"max_dropped allows {self.limit:,}" if self.limit else "nothing in the spec allows that"
            raise DroppedError(
                f"{self.where}: the function drops records (it returns None), and {allowed}; the first keys: {keys}",
                hint=WAY_ON,
            )

    @property
    def first_keys(self) -> tuple[Shown, ...]:
        return tuple(map(shown, self.keys))
