"""The lists of suites and groups name tests that exist."""

import ast
from pathlib import Path

import pytest

from tests.suites import GROUPS, LONG, REAL, SAMPLE, group_of, rank_of, suite_of

TESTS = Path(__file__).parent


@pytest.mark.parametrize("listed", [*REAL, *LONG, *SAMPLE, *(each for tests in GROUPS.values() for each in tests)])
def test_what_is_listed_exists(listed: str) -> None:
    path, _, name = listed.partition("::")
    assert (TESTS / path).exists()
    if name:
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert name.partition("[")[0] in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_test_is_known_by_its_room_its_module_or_its_name() -> None:
    assert suite_of("spark/test_signals.py::test_any[1]") == "real"
    assert suite_of("jobs/rows/test_data_source.py::test_any[1]") == "sample"
    assert suite_of("sparkling/test_any.py::test_any") is None
    assert suite_of("protocols/test_model.py::test_any") == "long"
    assert suite_of("live/test_any.py::test_any[3.9.1]", ["3.9.1"]) == "real"
    assert suite_of("live/test_any.py::test_any[4.0.1]", ["4.0.1"]) == "long"
    assert group_of("live/avro/test_java.py::test_any") == "live"
    assert group_of("spark/kills.py::test_any") == "spark"
    assert group_of("durability/test_any.py::test_any[1]") == "durability/test_any.py::test_any[1]"
    assert group_of("model/test_words.py::test_any[1]") == "model/test_words.py"


def test_a_sample_is_of_what_is_real() -> None:
    assert [each for each in SAMPLE if suite_of(each) != "sample"] == []


def test_what_takes_longest_begins_first() -> None:
    ranks = [rank_of(f"{test}::test_any") for test in ("live/test_a.py", "durability/test_a.py", "model/test_a.py")]
    assert ranks == sorted(set(ranks))
