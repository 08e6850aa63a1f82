"""Bars that show parts of a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

N = TypeVar("N", bound=float)


@dataclass(frozen=True, slots=True)
class Part:
    """One bar."""

    label: str
    text: str
    share: float
    """0 to 1."""
    tone: str = "accent"
    """The name of a colour in the style sheet."""

    @property
    def width(self) -> float:
        """The width of the bar, 0 to 100, at least visible unless the share is 0."""
        return round(max(100 * self.share, 0.4 if self.share else 0.0), 2)


def parts_of(whole: float, amounts: Iterable[tuple[str, N, str]], show: Callable[[N], str]) -> list[Part]:
    """Bars for amounts of one whole, given as (label, amount, tone)."""
    whole = max(whole, 1e-9)
    return [Part(label, show(amount), min(1.0, amount / whole), tone) for label, amount, tone in amounts]
