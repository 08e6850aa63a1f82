"""Headers and the varints that they are made of, against Kafka's own bytes; and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import EntryError, Headers, InvalidEntryError, TruncatedEntryError
from formats.encoding.varint import pack_varint, read_varint
from tests.formats.entries import HEADERS

VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    8192: "808001",
    (1 << 31) - 1: "feffffff0f",
    -(1 << 31): "ffffffff0f",
}
"""As in ByteUtilsTest.testVarintSerde of Kafka."""


@pytest.mark.parametrize(("number", "packed"), VARINTS.items())
def test_varints_are_kafkas(number: int, packed: str) -> None:
    assert pack_varint(number).hex() == packed
    assert read_varint(b"??" + bytes.fromhex(packed) + b"rest", 2) == (number, 2 + len(packed) // 2)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_32_bit_number_is_a_varint(number: int) -> None:
    packed = pack_varint(number)
    assert len(packed) <= 5
    assert read_varint(packed, 0) == (number, len(packed))


@given(st.binary(min_size=1, max_size=7))
def test_there_is_one_way_to_write_a_varint(data: bytes) -> None:
    try:
        number, end = read_varint(data, 0)
    except EntryError:
        return
    assert pack_varint(number) == data[:end]


@pytest.mark.parametrize("packed", ["8000", "8180808000", "ffffffff10", "ffffffff7f", "808080808001", "ffffffffff"])
def test_a_varint_that_no_owner_writes_is_refused(packed: str) -> None:
    with pytest.raises(InvalidEntryError, match="not in the form that its owner writes"):
        read_varint(bytes.fromhex(packed), 0)


@pytest.mark.parametrize("packed", ["", "80", "ffff"])
def test_a_varint_that_is_cut_off_is_refused(packed: str) -> None:
    with pytest.raises(TruncatedEntryError, match="varint has"):
        read_varint(bytes.fromhex(packed), 0)


@pytest.mark.parametrize(
    ("headers", "encoded"),
    [
        ([], ""),
        ([("h", b"x")], "0202680278"),
        ([("h", None)], "02026801"),
        ([("h", b""), ("h", b"y"), ("é", b"\0")], "0602680002680279" + "04c3a9" + "0200"),
    ],
)
def test_headers_are_kafkas(headers: list[tuple[str, bytes | None]], encoded: str) -> None:
    """The first three were written by Kafka Streams 4.3.1."""
    assert Headers.of(headers).encoded.hex() == encoded
    assert list(Headers(bytes.fromhex(encoded))) == headers


@given(HEADERS)
def test_headers_read_as_they_were_written(headers: Headers) -> None:
    assert Headers.of(headers) == headers


@given(st.binary(max_size=20))
def test_any_bytes_are_headers_or_refused(data: bytes) -> None:
    try:
        found = list(Headers(data))
    except EntryError as error:
        assert str(error)
        return
    if found:
        assert Headers.of(found).encoded == data


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("02", "varint has 1 bytes"),
        ("0202", "headers has 2 bytes, the layout needs at least 3"),
        ("020268", "varint has 3 bytes"),
        ("02026804", "headers has 4 bytes, the layout needs at least 6"),
        ("02026803", "a header has a size of -2"),
        ("0201", "a header has no name"),
        ("0202ff00", "a header's name is not UTF-8: ff"),
        ("020268027800", "1 bytes follow the last header"),
        ("01", "there cannot be -1 headers"),
    ],
)
def test_damaged_headers_are_refused_with_the_reason(encoded: str, reason: str) -> None:
    with pytest.raises(EntryError, match=reason):
        list(Headers(bytes.fromhex(encoded)))


def test_the_last_header_of_a_name_counts() -> None:
    headers = Headers.of([("a", b"1"), ("b", b"2"), ("a", None), ("a", b"3")])
    assert headers.get("a") == b"3"
    assert headers.get("c") is None
    assert list(headers.replaced("a", b"4")) == [("b", b"2"), ("a", b"4")]
