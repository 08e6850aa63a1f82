"""The page of `report`: states, verification, runs, steps, concerns (`test_structure.py` has what both pages share)."""

import re
from pathlib import Path
from typing import get_args

import pytest

from migrate.model.comparison import Totals, Verification
from migrate.model.reports import Column, Concern, State
from migrate.model.run_history import RunHistory
from migrate.show.page.run_page import run_page
from tests.show.page.histories import empty_history, good_history, ugly_history
from tests.show.page.reading import Page


def _with(history: RunHistory, **changes: object) -> Page:
    return Page(run_page(history.model_copy(update=changes)))


@pytest.mark.parametrize("state", get_args(State))
def test_every_state_has_a_word_and_a_colour(state: State) -> None:
    page = _with(good_history(), state=state)
    (banner,) = [str(found["class"]) for _, found in page.elements if str(found.get("class")).startswith("banner")]
    assert banner.split()[1] in ("good", "warn", "bad", "idle")
    assert (banner == "banner bad") == (state == "mismatch")


@pytest.mark.parametrize(
    ("verification", "kind", "word"),
    [
        (Verification(mode="full", records=9), "good", "all equal"),
        (Verification(mode="off"), "warn", "off"),
        (Verification(mode="digest", records=9, missing=1, extra=1), "warn", "2 wrong"),
        (None, "warn", "not yet"),
    ],
)
def test_success_without_verification_is_not_shown_as_success(
    verification: Verification | None, kind: str, word: str
) -> None:
    page = _with(good_history(), verification=verification)
    assert any(found.get("class") == f"banner {kind}" for _, found in page.elements)
    assert word in page.text


def test_the_pause_between_two_runs_is_shown() -> None:
    page = Page(run_page(good_history()))
    assert page.text.count("after 11 h") == 1
    assert "1 pause left out" in page.text


def test_neighbouring_steps_of_store_partitions_are_one() -> None:
    page = Page(run_page(good_history()))
    assert page.text.count("assembled") == 1
    assert "4 store partitions" in page.text
    assert "1 h 13 min later" in page.text


def test_store_partitions_are_in_the_order_in_which_one_counts() -> None:
    history = ugly_history()
    page = run_page(history.model_copy(update={"chunks": history.chunks[1:]}))
    labels = re.findall(r'<div class="label"><bdi>(.*?)</bdi>', page)
    assert labels == [f"0_{task}/orders" for task in range(64)]


def test_a_run_that_has_done_nothing() -> None:
    page = Page(run_page(empty_history()))
    for words in ("Nothing is planned yet", "No chunk has been committed yet", "None yet", "none yet", "None so far"):
        assert words in page.text


UNVERIFIED = Concern(kind="unverified", sentence="the new stores are not verified", fix="stateferry verify SPEC")
REJECTS = Concern(kind="rejects", sentence="30 records are left out", fix="stateferry cutover SPEC --accept-rejects 30")
WRONG = Concern(kind="mismatch", sentence="a verification found the new stores wrong", fix="stateferry rollback SPEC")


@pytest.mark.parametrize(
    ("state", "concern", "kind", "words"),
    [
        ("verified", REJECTS, "warn", "Verified, held back"),
        ("assembled", UNVERIFIED, "warn", "not verified"),
        ("published", UNVERIFIED.model_copy(update={"accepted": "--unverified"}), "warn", "Accepted: --unverified"),
        ("cut over", REJECTS.model_copy(update={"accepted": "[run] max_rejects = 30"}), "warn", "Accepted: [run] max"),
        ("cut over", WRONG, "bad", "Cut over, verification failed since"),
    ],
)
def test_concerns_are_amber_and_a_mismatch_is_red(state: State, concern: Concern, kind: str, words: str) -> None:
    page = _with(good_history(), state=state, concerns=(concern,))
    assert any(found.get("class") == f"banner {kind}" for _, found in page.elements)
    assert words in page.text
    assert page.text.index(concern.sentence[1:]) < page.text.index("Records read")
    assert page.has(concern.accepted or concern.fix)


def test_records_left_out_are_no_part_of_those_that_were_written() -> None:
    totals = Totals(records_in=1_500_000, records_out=1_499_970, rejected=30)
    page = _with(good_history(), totals=totals)
    assert "1,499,970 records written, 30 left out, verification" in page.text
    page = _with(good_history(), totals=totals.model_copy(update={"records_out": 1_499_960, "dropped": 10}))
    assert "1,499,960 records written, 40 left out (30 rejected, 10 dropped by the function)" in page.text


def test_dead_letters_are_shown_with_their_columns() -> None:
    columns = (Column(name="key", type="binary"), Column(name="reason", type="string"))
    page = _with(good_history(), dead_letters=Path("/srv/work/dead-letters"), dead_letter_columns=columns)
    assert "/srv/work/dead-letters" in page.text
    assert "key binary, reason string" in page.text
