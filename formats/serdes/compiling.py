"""Byte operations that change a payload from one serde to another."""

from __future__ import annotations

from formats.program import IDENTITY, Operation
from formats.serde import Serde


def compile_serdes(source: Serde, target: Serde) -> tuple[Operation, ...] | None:
    """What the payload needs, or None where only the reference path serves."""
    return IDENTITY if source == target else None
