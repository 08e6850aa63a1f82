"""The map of the key space stays readable, however many chunks there are."""

from collections.abc import Sequence

import pytest

from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk
from migrate.show.page.plots import Band, MapSpan, bands, span_of

LEAST_READABLE = 0.5
"""Percent: two pixels on a phone."""


def _pieces(sizes: Sequence[int], band: str = "0_0/orders") -> list[MapSpan]:
    return [MapSpan(band, f"{band} {number}", size) for number, size in enumerate(sizes)]


def _lines(band: Band) -> int:
    """As the page breaks them."""
    lines, filled = 1, 0.0
    for width, _ in band.segments:
        if filled + width > 100:
            lines, filled = lines + 1, 0.0
        filled += width
    return lines


def test_one_chunk_fills_its_line() -> None:
    (band,) = bands(_pieces([123_456]))
    ((width, _),) = band.segments
    assert width == 100
    assert (band.label, band.summary) == ("0_0/orders", "1 chunk, 121 KiB")


@pytest.mark.parametrize("sizes", [[2**28] * 2000, [2**20 + 997 * (number % 50) for number in range(2000)], [0] * 2000])
def test_two_thousand_chunks_are_wide_enough_to_be_distinguished(sizes: list[int]) -> None:
    (band,) = bands(_pieces(sizes))
    assert [segment.title for _, segment in band.segments] == [f"0_0/orders {number}" for number in range(2000)]
    assert min(width for width, _ in band.segments) >= LEAST_READABLE
    assert 10 <= _lines(band) <= 30


@pytest.mark.parametrize("chunks", [1, 3, 6, 7, 79, 80])
def test_equal_chunks_of_one_line_stay_on_it(chunks: int) -> None:
    (band,) = bands(_pieces([2**20] * chunks))
    assert 99 < sum(width for width, _ in band.segments) <= 100


def test_bands_share_one_scale() -> None:
    big, small = bands([*_pieces([2**20] * 8, "big"), *_pieces([2**20] * 2, "small")])
    assert sum(width for width, _ in big.segments) == pytest.approx(100)
    assert sum(width for width, _ in small.segments) == pytest.approx(25)


def test_sixty_four_store_partitions_are_as_many_bands() -> None:
    found = bands([piece for task in range(64) for piece in _pieces([2**20] * 30, f"0_{task}/orders")])
    assert [band.label for band in found] == [f"0_{task}/orders" for task in range(64)]
    assert {len(band.segments) for band in found} == {30}


def test_one_huge_chunk_leaves_the_others_their_size() -> None:
    (band,) = bands(_pieces([2**20] * 100 + [2**40]))
    assert min(width for width, _ in band.segments) >= LEAST_READABLE
    assert band.segments[-1][0] == 100


def test_no_chunk_is_no_band() -> None:
    assert bands([]) == []


def test_a_tooltip_has_the_keys_and_the_size() -> None:
    keys = KeyRange(start=b"a", end=b"\x00\xff")
    chunk = Chunk(store_partition="0_0/orders", database=".", number=7, keys=keys, estimated_bytes=0)
    assert span_of(chunk, 2**21).title == 'chunk 7: 2.0 MiB, keys ["a", 0x00ff)'
    assert span_of(chunk, 2**21, seconds=1.5).title == 'chunk 7: 2.0 MiB, 1.5 s, keys ["a", 0x00ff)'
