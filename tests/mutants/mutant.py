"""A mutant: one safety claim, broken by one change of the code, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class StaleError(Exception):
    """The code that the mutant changes is not there any more, or more than once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` occurs exactly once in `file`."""

    name: str
    claim: str
    """Of docs/correctness.md: an invariant, or the switch."""
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Each alone would do; named by pytest's ids, as few and as fast as can be."""

    def patched(self, root: Path) -> str:
        """The file's text with the change. Raises StaleError."""
        text = (root / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise StaleError(f"{self.file} has the text to change {found} times")
        return text.replace(self.old, self.new)
