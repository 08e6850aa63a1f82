"""Kinds of stores that cannot be converted: how they are recognized, and why not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnsupportedKind:
    """A kind of store that no format describes."""

    name: str
    """The name of one such store, with its article."""
    recognized_by: str
    reason: str
    instead: str
    """What to do instead."""
    families: tuple[str, ...] = ()
    """Column families that no other kind has."""
    store_name: str | None = None
    """A regular expression: the owner's own names for stores of this kind, and no others."""
    likely_name: str | None = None
    """A regular expression for names that other stores may have too."""

    def is_kind_of(self, store: str | None, families: Iterable[str]) -> bool:
        """Whether the name or the column families of a store are of this kind and no other."""
        is_named = store is not None and self.store_name is not None and re.fullmatch(self.store_name, store)
        return bool(is_named) or not {*families}.isdisjoint(self.families)

    def may_be_kind_of(self, store: str) -> bool:
        """Whether the name of a store may be of this kind."""
        return self.likely_name is not None and re.fullmatch(self.likely_name, store) is not None
