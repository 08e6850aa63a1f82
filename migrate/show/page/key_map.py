"""A map of the key space: a band for each RocksDB directory, with its chunks side by side, as wide as their sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor
from statistics import median

from migrate.model.units import duration, plural, size, visible

_CHUNKS_PER_LINE = 80
"""More of them cannot be distinguished on a phone."""
_LEAST_WIDTH = 0.5
"""Percent of a line."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk before it is placed on the map."""

    band: str
    title: str
    size: int
    tone: float = 1.0
    """Strength of the colour, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One chunk on the map."""

    width: float
    """Percent of a line; the page starts a new line when one is full."""
    opacity: float
    title: str


@dataclass(frozen=True, slots=True)
class Band:
    """One RocksDB directory."""

    label: str
    summary: str
    """The number of chunks and their size."""
    segments: tuple[Segment, ...]


def band_name(store_partition: str, database: str) -> str:
    """The name of a RocksDB directory on the page."""
    return store_partition if database in ("", ".") else f"{store_partition}/{database}"


def title(number: int, keys: object, extent: int, *, seconds: float | None = None) -> str:
    """The tooltip of a chunk."""
    took = "" if seconds is None else f", {duration(seconds)}"
    return visible(f"chunk {number}: {size(extent)}{took}, keys {keys}")


def bands(pieces: Iterable[Piece]) -> list[Band]:
    """The bands of the map, all on one scale."""
    by_band: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_band.setdefault(piece.band, []).append(piece)
    scale = _bytes_per_line(list(by_band.values()))
    return [_band(label, chunks, scale) for label, chunks in by_band.items()]


def _bytes_per_line(all_pieces: Sequence[Sequence[Piece]]) -> float:
    """The scale at which the chunks of the fullest line can be distinguished.

    A chunk that is very much larger than the others fills a line, so that the others stay visible.
    """
    sizes = [piece.size for pieces in all_pieces for piece in pieces]
    if not sizes:
        return 1.0
    lines = [sum(piece.size for piece in pieces) / -(-len(pieces) // _CHUNKS_PER_LINE) for pieces in all_pieces]
    ceiling = max(1.0, median(sizes)) * _CHUNKS_PER_LINE
    return max(1.0, min(max(lines), ceiling), min(max(sizes), ceiling))


def _band(label: str, pieces: Sequence[Piece], scale: float) -> Band:
    segments = (Segment(_width(piece.size / scale), round(piece.tone, 2), piece.title) for piece in pieces)
    summary = f"{plural(len(pieces), 'chunk')}, {size(sum(piece.size for piece in pieces))}"
    return Band(label, summary, tuple(segments))


def _width(part: float) -> float:
    """The width in percent, rounded down so that the chunks of a full line stay on it."""
    return min(100.0, max(_LEAST_WIDTH, floor(100_000 * part) / 1000))
