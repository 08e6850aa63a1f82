"""Keys and values as a person reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.preview import shown


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
