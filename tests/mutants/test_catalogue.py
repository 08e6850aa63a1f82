"""The catalogue fits the code: what `python -m tests.mutants` would find out in minutes, in a moment."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
CLAIMS = {*(f"I{number}" for number in range(1, 12)), "switch"}
EACH = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


def test_every_claim_has_a_mutant_and_every_mutant_a_name_of_its_own() -> None:
    assert {mutant.claim for mutant in MUTANTS} == CLAIMS
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@EACH
def test_it_changes_one_place_and_leaves_code_that_runs(mutant: Mutant) -> None:
    text = mutant.patched(ROOT)
    assert text != (ROOT / mutant.file).read_text(encoding="utf-8")
    compile(text, mutant.file, "exec")


@EACH
def test_its_tests_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        functions = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        assert name.partition("[")[0] in {node.name for node in functions if isinstance(node, ast.FunctionDef)}
