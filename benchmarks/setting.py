"""How much to measure, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.stores import PLAIN, Store, ensure_store

SMALL, LARGE = 2_000_000, 20_000_000
PER_CORE = "Bars of this table are on CPU time: one core's work, whatever else the machine does meanwhile."


@dataclass(frozen=True, slots=True)
class Setting:
    """How much to measure, and where."""

    folder: Path
    rounds: int
    quick: bool

    @property
    def sizes(self) -> list[int]:
        """Records of the stores."""
        return [SMALL] if self.quick else [SMALL, LARGE]

    def store(self, records: int) -> Store:
        """The usual store."""
        return ensure_store(self.folder, PLAIN, records)
