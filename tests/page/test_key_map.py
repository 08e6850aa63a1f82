"""The map of the key space stays readable, however many chunks there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from migrate.keyrange import KeyRange
from migrate.page.key_map import LINE_GAP, LINE_HEIGHT, WIDTH, Band, Piece, bands, title

LEAST_READABLE = WIDTH / 200
"""Two pixels on a phone."""


def _pieces(sizes: Sequence[int], band: str = "0_0/orders") -> list[Piece]:
    return [Piece(band, f"{band} {number}", size) for number, size in enumerate(sizes)]


def _lines(band: Band) -> list[float]:
    return sorted({segment.y for segment in band.segments})


def test_one_chunk_fills_its_line() -> None:
    (band,) = bands(_pieces([123_456]))
    (segment,) = band.segments
    assert (segment.x, segment.y, segment.width, band.height) == (0, 0, WIDTH, LINE_HEIGHT)
    assert (band.label, band.summary) == ("0_0/orders", "1 chunk, 121 KiB")


@pytest.mark.parametrize("sizes", [[2**28] * 2000, [2**20 + 997 * (number % 50) for number in range(2000)], [0] * 2000])
def test_two_thousand_chunks_are_wide_enough_to_be_told_apart(sizes: list[int]) -> None:
    (band,) = bands(_pieces(sizes))
    assert [segment.title for segment in band.segments] == [f"0_0/orders {number}" for number in range(2000)]
    assert min(segment.width for segment in band.segments) >= LEAST_READABLE
    assert 12 <= len(_lines(band)) <= 30
    assert band.height == len(_lines(band)) * (LINE_HEIGHT + LINE_GAP) - LINE_GAP


def test_segments_of_a_line_follow_each_other_and_stay_inside() -> None:
    (band,) = bands(_pieces([2**20 * (1 + number % 7) for number in range(700)]))
    for y in _lines(band):
        at = 0.0
        for segment in (segment for segment in band.segments if segment.y == y):
            assert segment.x == pytest.approx(at, abs=0.05)
            at = segment.x + segment.width
        assert at <= WIDTH + 0.5


def test_bands_share_one_scale() -> None:
    big, small = bands([*_pieces([2**20] * 8, "big"), *_pieces([2**20] * 2, "small")])
    assert sum(segment.width for segment in big.segments) == pytest.approx(WIDTH)
    assert sum(segment.width for segment in small.segments) == pytest.approx(WIDTH / 4)


def test_sixty_four_store_partitions_are_as_many_bands() -> None:
    found = bands([piece for task in range(64) for piece in _pieces([2**20] * 30, f"0_{task}/orders")])
    assert [band.label for band in found] == [f"0_{task}/orders" for task in range(64)]
    assert {band.chunks for band in found} == {30}


def test_one_huge_chunk_leaves_the_others_their_size() -> None:
    (band,) = bands(_pieces([2**20] * 100 + [2**40]))
    assert min(segment.width for segment in band.segments) >= LEAST_READABLE
    assert band.segments[-1].width == WIDTH


def test_no_chunk_is_no_band() -> None:
    assert bands([]) == []


def test_a_tooltip_says_the_keys_and_the_size() -> None:
    keys = KeyRange(start=b"a", end=b"\x00\xff")
    assert title(7, keys, 2**21) == 'chunk 7: 2.0 MiB, keys ["a", 0x00ff)'
    assert title(7, keys, 2**21, seconds=1.5) == 'chunk 7: 2.0 MiB, 1.5 s, keys ["a", 0x00ff)'
