"""The key space as a map: a band for each RocksDB directory, its chunks side by side, as wide as they have bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from migrate.words import duration, plural, size, visible

WIDTH = 1000.0
"""Of a full line, in the map's own units: the page stretches it."""
LINE_HEIGHT = 14.0
LINE_GAP = 5.0
_CHUNKS_PER_LINE = 80
"""More could not be told apart on a phone."""
_LEAST_WIDTH = 5.0
_ROUNDING = 1.0001


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk, before it has a place on the map."""

    band: str
    title: str
    size: int
    tone: float = 1.0
    """How strong its colour is, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One chunk in its place."""

    x: float
    y: float
    width: float
    opacity: float
    title: str


@dataclass(frozen=True, slots=True)
class Band:
    """One RocksDB directory: one line, or several where one would be too fine to read."""

    label: str
    chunks: int
    size: int
    height: float
    segments: tuple[Segment, ...]

    @property
    def summary(self) -> str:
        """What lies there, in words."""
        return f"{plural(self.chunks, 'chunk')}, {size(self.size)}"


def band_name(store_partition: str, database: str) -> str:
    """What a RocksDB directory is called on the page."""
    return store_partition if database in ("", ".") else f"{store_partition}/{database}"


def title(number: int, keys: object, extent: int, *, seconds: float | None = None) -> str:
    """What a chunk's tooltip says."""
    took = "" if seconds is None else f", {duration(seconds)}"
    return visible(f"chunk {number}: {size(extent)}{took}, keys {keys}")


def bands(pieces: Iterable[Piece]) -> list[Band]:
    """One scale for all of them, so that a small store partition looks small."""
    by_band: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_band.setdefault(piece.band, []).append(piece)
    scale = _bytes_per_line(list(by_band.values()))
    return [_band(label, chunks, scale) for label, chunks in by_band.items()]


def _bytes_per_line(all_pieces: Sequence[Sequence[Piece]]) -> float:
    """So many that the fullest line holds no more chunks than can be told apart.

    A chunk that is very much larger than the others fills a line, and leaves them a size at which they can be seen.
    """
    sizes = [piece.size for pieces in all_pieces for piece in pieces]
    if not sizes:
        return 1.0
    lines = [sum(piece.size for piece in pieces) / -(-len(pieces) // _CHUNKS_PER_LINE) for pieces in all_pieces]
    ceiling = max(1.0, median(sizes)) * _CHUNKS_PER_LINE
    return max(1.0, min(max(lines), ceiling), min(max(sizes), ceiling))


def _band(label: str, pieces: Sequence[Piece], scale: float) -> Band:
    segments: list[Segment] = []
    lines = list(_lines(pieces, scale))
    for number, line in enumerate(lines):
        segments += _line(line, number * (LINE_HEIGHT + LINE_GAP), WIDTH / scale)
    height = len(lines) * (LINE_HEIGHT + LINE_GAP) - LINE_GAP
    return Band(label, len(pieces), sum(piece.size for piece in pieces), height, tuple(segments))


def _lines(pieces: Sequence[Piece], scale: float) -> Iterator[list[Piece]]:
    line: list[Piece] = []
    filled = 0.0
    for piece in pieces:
        if line and (len(line) == 2 * _CHUNKS_PER_LINE or filled + piece.size > scale * _ROUNDING):
            yield line
            line, filled = [], 0.0
        line.append(piece)
        filled += piece.size
    if line:
        yield line


def _line(pieces: Sequence[Piece], y: float, per_byte: float) -> Iterator[Segment]:
    wide = [max(_LEAST_WIDTH, piece.size * per_byte) for piece in pieces]
    shrink = min(1.0, WIDTH / sum(wide))
    x = 0.0
    for piece, width in zip(pieces, wide, strict=True):
        shown = width * shrink
        yield Segment(round(x, 2), y, round(shown, 2), round(piece.tone, 2), piece.title)
        x += shown
