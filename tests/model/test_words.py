"""Numbers, times and bytes as a person reads them."""

import json

import pytest

from migrate.model.display import duration, moment, plural, rate, share, size, visible
from migrate.model.preview import Shown, shown
from migrate.show.page.rendering import marked_dump, plain_dump
from migrate.show.plain import visible_json, visible_message


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (99 * 1024, "99.0 KiB"),
        (100 * 1024, "100 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (13_300_000_000, "12.4 GiB"),
        (2**60, "1,024 PiB"),
    ],
)
def test_sizes_have_three_digits_or_so(number: int, words: str) -> None:
    assert size(number) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.0004, "0 ms"),
        (0.084, "84 ms"),
        (0.0999, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (-3, "0 s"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("part", "words"),
    [(0, "0 %"), (1, "100 %"), (0.0001, "< 0.1 %"), (0.99999, "> 99.9 %"), (0.125, "12.5 %"), (1 / 3, "33.3 %")],
)
def test_a_share_is_never_rounded_to_nothing_nor_to_all(part: float, words: str) -> None:
    assert share(part) == words


def test_rates_moments_and_plurals_are_words() -> None:
    assert (rate(1_140_000.4), rate(0.25)) == ("1,140,000 records/s", "0.25 records/s")
    assert (moment(1768478400000), moment(10**30)) == ("2026-01-15 12:00:00 UTC", f"{10**30} ms since 1970")
    assert [plural(number, "directory", "directories") for number in (0, 1, 2000)] == [
        "0 directories",
        "1 directory",
        "2,000 directories",
    ]


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert visible("a\x00b\x1b\x7f\x85") == "a\u2400b\u241b\u2421\u27e885\u27e9"
    assert (
        visible("\u202eabc\ud83d\ufeff\u2028")
        == "\u27e8U+202E\u27e9abc\u27e8U+D83D\u27e9\u27e8U+FEFF\u27e9\u27e8U+2028\u27e9"
    )


def test_letters_of_every_script_stay_as_they_are() -> None:
    text = (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645, \u05de\u05e4\u05ea\u05d7, \u952e, e\u0301\n\tand\u00a0more"
    )
    assert visible(text) == text


def test_marked_is_what_lies_between_what_both_share() -> None:
    old, new = shown(b"abcdefgh"), shown(b"\xff" * 8 + b"abcdefgh")
    assert marked_dump(new, old) == [("ffffffff ffffffff", True), (" ", False), ("61626364 65666768", False)]
    assert marked_dump(old, new) == [("61626364 65666768", False)]


def test_a_change_in_the_middle_is_marked_to_the_byte() -> None:
    old, new = shown(b"abcde1yz"), shown(b"abcde22yz")
    assert marked_dump(old, new) == [("61626364 65", False), ("31", True), ("797a", False)]
    assert [text for text, is_marked in marked_dump(new, old) if is_marked] == ["3232"]


@pytest.mark.parametrize(("old", "new"), [(b"", b"a"), (b"aaa", b"aa"), (b"aa", b"aaa"), (b"a", b"b"), (b"", b"")])
def test_marks_change_no_digit(old: bytes, new: bytes) -> None:
    for mine, other in ((old, new), (new, old)):
        assert "".join(text for text, _ in marked_dump(shown(mine), shown(other))).replace(" ", "") == mine.hex()


def test_where_one_was_cut_all_is_marked_from_the_first_difference_on() -> None:
    long = shown(b"k" * 257)
    marked = "".join(text for text, is_marked in marked_dump(long, shown(b"k")) if is_marked)
    assert marked.replace(" ", "") == "6b" * (len(long.hex.strip("…. ")) // 2 - 1)
    assert {is_marked for _, is_marked in marked_dump(shown(b"k"), long)} == {False}
    assert "".join(text for text, _ in plain_dump(long)).replace(" ", "") == long.hex


def test_hex_that_is_none_is_shown_as_it_is() -> None:
    assert "".join(text for text, _ in plain_dump(Shown(size=3, hex="ab<b>", text="x"))) == "ab<b>"


def test_a_line_of_a_list_stays_a_line_and_any_other_break_is_shown() -> None:
    assert visible_message("two things:\n  - a\n  - b\r\nnext: rm\u2028-rf /\t") == (
        "two things:\n  - a\n  - b\u240d\u240anext: rm\u27e8U+2028\u27e9-rf /\u2409"
    )


def test_json_for_a_terminal_holds_the_same_strings() -> None:
    strings = ["\x1b[31m\x85\u202e\n", "\u0645\u200c\u062e", "\U000e0041 \U0001f600", "plain"]
    document = json.dumps(strings, ensure_ascii=False, indent=1)
    shown = visible_json(document)
    assert json.loads(shown) == strings
    assert visible(shown) == shown
