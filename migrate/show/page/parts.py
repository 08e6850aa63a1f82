"""What several pages show in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

N = TypeVar("N", bound=float)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a whole, as a bar."""

    label: str
    text: str
    share: float
    """0 to 1."""
    tone: str = "accent"
    """A colour of the style sheet, by name."""

    @property
    def width(self) -> float:
        """Of the bar, 0 to 100: what is not nothing can be seen."""
        return round(max(100 * self.share, 0.4 if self.share else 0.0), 2)


def parts_of(whole: float, amounts: Iterable[tuple[str, N, str]], show: Callable[[N], str]) -> list[Part]:
    """Amounts of one whole, each with its label and its tone."""
    whole = max(whole, 1e-9)
    return [Part(label, show(amount), min(1.0, amount / whole), tone) for label, amount, tone in amounts]
