"""Keys and values as a person reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.preview import hex_beside, shown, shown_beside


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"key-1 {}", "key-1 {}"),
        ("Zürich \N{SNOWMAN}".encode(), "Zürich \N{SNOWMAN}"),
        (b"\x00\x01k\x7f\n", "··k··"),
        (b"\xff\xfek\xc3", "··k·"),
        (b"\xc3\xa9k\xff", "··k·"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b".encode(), "a·b"),
    ],
)
def test_what_cannot_be_printed_is_a_middle_dot(data: bytes, text: str) -> None:
    found = shown(data)
    assert (found.size, found.hex, found.text) == (len(data), data.hex(), text)


def test_more_than_256_bytes_are_cut_off() -> None:
    whole, cut = shown(b"x" * 256), shown(b"x" * 257)
    assert (whole.size, whole.hex, whole.text) == (256, "78" * 256, "x" * 256)
    assert (cut.size, cut.hex, cut.text) == (257, "78" * 256 + "...", "x" * 256 + "...")


@given(st.binary(max_size=300))
def test_any_bytes_can_be_shown(data: bytes) -> None:
    found = shown(data)
    assert found.size == len(data)
    assert bytes.fromhex(found.hex.removesuffix("...")) == data[:256]
    assert found.text.isprintable()
    found.model_dump_json()


@pytest.mark.parametrize("filler", [b"x", b"\x80", b"\xbf\xbf", "\U0001f600".encode()])
def test_the_first_difference_is_shown_whatever_comes_before_it(filler: bytes) -> None:
    """Bytes that continue a character may also be a number's, in any count."""
    for head in range(0, 1200, 7):
        before = (filler * 1200)[:head]
        one, other = shown_beside(before + b"a" + filler * 300, before + b"b" + filler * 300)
        assert "61" in one.hex and "62" in other.hex


@given(st.binary(max_size=600), st.binary(max_size=600), st.integers(20, 200))
def test_hex_is_cut_between_bytes(old: bytes, new: bytes, longest: int) -> None:
    for shown_hex, whole in zip(hex_beside(*shown_beside(old, new), longest), (old, new), strict=True):
        digits = shown_hex.strip(".").removeprefix("0x")
        assert len(digits) <= longest
        assert bytes.fromhex(digits) in whole
        assert shown_hex.startswith("0x") or shown_hex.startswith("...")
