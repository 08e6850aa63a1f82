"""The adapter's files in two directories, in every order that a small instance allows."""

import pytest

from tests.protocols.dual_marks import ASKED_IN_VAIN, HIDDEN, NOT_ASKED, MarksProtocol, Mutant, State
from tests.protocols.explore import explore

OPENED_OFTEN = State(openings=3, foreign=1, marks=0)
MARKED_OFTEN = State(openings=2, foreign=2, marks=1)
MUTANTS = {
    Mutant.MANIFEST_ALONE: HIDDEN,
    Mutant.MANIFEST_IGNORED: NOT_ASKED,
    Mutant.TOKEN_KEPT: NOT_ASKED,
    Mutant.NEW_FIRST: ASKED_IN_VAIN,
    Mutant.ANSWER_OLD_FIRST: NOT_ASKED,
    Mutant.NO_PREVIOUS: ASKED_IN_VAIN,
    Mutant.NOT_NOTED: ASKED_IN_VAIN,
}


@pytest.mark.parametrize(
    ("begin", "at_least"), [(OPENED_OFTEN, 150_000), (MARKED_OFTEN, 200_000)], ids=["three openings", "two openings"]
)
def test_no_key_is_hidden_and_the_caller_is_asked_where_it_is_needed_and_only_there(
    begin: State, at_least: int
) -> None:
    found = explore(MarksProtocol(begin))
    print(f"{len(found)} states")
    assert found.counter_example is None, f"{found.counter_example}"
    assert len(found) > at_least


@pytest.mark.parametrize("mutant", Mutant, ids=lambda mutant: mutant.name)
def test_each_rule_of_the_two_files_is_needed(mutant: Mutant) -> None:
    found = explore(MarksProtocol(OPENED_OFTEN, mutant)).counter_example
    print(found)
    assert found is not None, "nobody notices"
    assert found.invariant == MUTANTS[mutant]
