"""The engine of each test and of each killed command, by its name: half of them prefer the native one.

It is the same half in every run. `STATEFERRY_TEST_ENGINE=native`, or `portable`, is for all of them. What the preferred
engine declines, the other one does.
"""

from __future__ import annotations

import os
from typing import Literal
from zlib import crc32

from migrate.engine import engines

Name = Literal["native", "portable"]
NAMES: tuple[Name, ...] = ("native", "portable")
FORCED = "STATEFERRY_TEST_ENGINE"
FAMILIES = ("bad_input", "batch", "kill", "live", "situations")
"""Of tests; others say which engine they want, or do not care."""
MORE_THAN_ANY = 1 << 63


def engine_of(name: str) -> Name:
    """Of a test, or of a command."""
    if (forced := os.environ.get(FORCED)) is not None:
        if forced not in NAMES:
            raise ValueError(f"{FORCED} is {forced!r}, and should be one of {NAMES}")
        return forced
    return NAMES[crc32(name.encode()) % 2]


def prefer(engine: Name) -> None:
    """Let this process take it where `[run] engine` is "auto", whatever the size of a store."""
    engines.LITTLE_BYTES = 0 if engine == "native" else MORE_THAN_ANY
