"""What several pages show in the same way."""

from __future__ import annotations

from dataclasses import dataclass


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
