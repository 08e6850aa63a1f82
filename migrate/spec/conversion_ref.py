"""A conversion in a form that a task can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats import Function

if TYPE_CHECKING:
    from migrate.spec.serdes import PayloadSerdes


@dataclass(frozen=True, slots=True)
class ConversionRef:
    """A conversion in a form that a task can carry."""

    source: str
    target: str
    default_timestamp_ms: int = -1
    function: str | Function | None = None
    """`module:name`, or the function itself where the run stays in this process."""
    search_path: tuple[str, ...] = ()
    """Where to look for the module, besides Python's own path."""
    keys_may_change: bool = False
    may_lose: frozenset[str] = frozenset()
    """What the function may give records although the target has no room for it, by names of `allow`."""
    key: PayloadSerdes | None = None
    value: PayloadSerdes | None = None
    modules: tuple[str, ...] = ()
    """The modules that define the function."""
    files: tuple[str, ...] = ()
    """Data files that the function reads, by path from the spec."""
    code: tuple[tuple[str, str], ...] = ()
    """The function's fingerprint: digests by path; that of a function given as an object has an empty path."""
