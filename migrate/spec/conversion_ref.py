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
    """Where the module may be, beside what Python finds anyway."""
    keys_may_change: bool = False
    key: PayloadSerdes | None = None
    value: PayloadSerdes | None = None
    modules: tuple[str, ...] = ()
    """The function's own."""
    files: tuple[str, ...] = ()
    """Data that it reads, by path from the spec."""
    code: tuple[tuple[str, str], ...] = ()
    """What it is made of: digests by path; of the function itself, where it is given as an object, by no path."""
