"""Key ranges, and the subtraction that a resume is made of, against brute force."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.key_range import KeyRange, show_key, subtract

KEYS = [b"", *(bytes(key) for size in (1, 2, 3) for key in product(b"\x00a\xff", repeat=size))]
BOUNDS = st.none() | st.sampled_from(KEYS)
RANGES = st.builds(KeyRange, start=BOUNDS, end=BOUNDS)


@given(keys=RANGES)
def test_empty_means_that_no_key_is_in_it(keys: KeyRange) -> None:
    if keys.is_empty:
        assert not any(key in keys for key in KEYS)
    else:
        assert any(key in keys for key in (*KEYS, keys.start or b""))


@given(whole=RANGES, done=st.lists(RANGES, max_size=5))
def test_what_is_left_is_what_is_not_done(whole: KeyRange, done: list[KeyRange]) -> None:
    left = subtract(whole, done)
    for key in KEYS:
        expected = key in whole and not any(key in part for part in done)
        assert sum(key in part for part in left) == expected


@given(whole=RANGES, done=st.lists(RANGES, max_size=5))
def test_what_is_left_is_in_order_disjoint_and_not_empty(whole: KeyRange, done: list[KeyRange]) -> None:
    left = subtract(whole, done)
    assert not any(part.is_empty for part in left)
    for before, after in pairwise(left):
        assert before.end is not None
        assert before.end <= (after.start or b"")


@given(done=st.lists(RANGES, max_size=5))
def test_subtracting_what_is_left_leaves_nothing(done: list[KeyRange]) -> None:
    whole = KeyRange()
    assert subtract(whole, [*done, *subtract(whole, done)]) == []


@pytest.mark.parametrize(
    ("done", "left"),
    [
        ([], [(None, None)]),
        ([(None, None)], []),
        ([(None, b"m")], [(b"m", None)]),
        ([(b"m", None)], [(None, b"m")]),
        ([(b"c", b"d"), (b"m", b"p")], [(None, b"c"), (b"d", b"m"), (b"p", None)]),
        ([(b"a", b"z"), (b"c", b"d")], [(None, b"a"), (b"z", None)]),
        ([(b"c", b"d"), (b"d", b"f")], [(None, b"c"), (b"f", None)]),
    ],
)
def test_examples(done: list[tuple[bytes | None, bytes | None]], left: list[tuple[bytes | None, bytes | None]]) -> None:
    parts = [KeyRange(start=start, end=end) for start, end in done]
    assert subtract(KeyRange(), parts) == [KeyRange(start=start, end=end) for start, end in left]


@given(keys=RANGES)
def test_a_range_survives_json(keys: KeyRange) -> None:
    assert KeyRange.model_validate_json(keys.model_dump_json()) == keys


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"order-1", '"order-1"'),
        (b"\x00\xff", "0x00ff"),
        (b"new\nline", "0x6e65770a6c696e65"),
        ("Łódź".encode(), "0xc581c3b364c5ba"),
        (b"x" * 100, f'"{"x" * 64}..."'),
        (b"", '""'),
    ],
)
def test_keys_are_shown_to_people(key: bytes, shown: str) -> None:
    assert show_key(key) == shown


def test_a_range_is_shown_with_its_open_ends() -> None:
    assert str(KeyRange(end=b"\x01")) == "[first, 0x01)"
    assert str(KeyRange(start=b"a")) == '["a", end)'
