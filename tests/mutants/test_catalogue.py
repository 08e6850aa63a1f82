"""The catalogue fits the code: what `python -m tests.mutants` would find out in minutes, in a moment."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Code, Mutant, StaleError

CODE = Code(Path(__file__).parents[2])
CLAIMS = {*(f"I{number}" for number in range(1, 15)), "switch"}
EACH = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


def test_every_claim_has_a_mutant_and_every_mutant_a_name_of_its_own() -> None:
    assert {mutant.claim for mutant in MUTANTS} == CLAIMS
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@EACH
def test_it_changes_one_definition_and_leaves_code_that_runs(mutant: Mutant) -> None:
    file, text = mutant.patched(CODE)
    assert text != file.read_text(encoding="utf-8")
    compile(text, str(file), "exec")


def test_none_uses_a_name_that_is_not_there(tmp_path: Path) -> None:
    """Such a mutant would be broken, not caught."""
    for mutant in MUTANTS:
        (tmp_path / f"{mutant.name}.py").write_text(mutant.patched(CODE)[1], encoding="utf-8")
    options = ["--isolated", "--no-cache", "--select", "F821,F823"]
    command = [sys.executable, "-m", "ruff", "check", *options, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@EACH
def test_its_tests_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        CODE.test_id(test)


def _code(root: Path, **modules: str) -> Code:
    (root / "migrate").mkdir()
    for name, text in modules.items():
        (root / "migrate" / f"{name}.py").write_text(text, encoding="utf-8")
    return Code(root)


_SYNC = "    sync('a', b)\n"


def _mutant(definition: str) -> Mutant:
    return Mutant("name", "I1", definition, '    sync("a", b)\n', "    pass\n", ("test_it",))


@pytest.mark.parametrize("call", ["sync('a', b)", 'sync("a", b)  # now', 'sync(\n"a",  # or b\nb,\n)'])
def test_a_definition_is_found_whatever_its_module_and_its_formatting(call: str, tmp_path: Path) -> None:
    before = f"def f():\n    {call}\n\n\n"
    code = _code(tmp_path, one=f"{before}def g():\n    {call}\n", two="def g():\n    return 1\n")
    assert _mutant("g").patched(code) == (tmp_path / "migrate/one.py", f"{before}def g():\n    pass\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"def f():\n{_SYNC}", "0 definitions of g have this 0 times"),
        (
            "def g():\n    return 1\n",
            r"1 definitions of g have this 0 times:.*sync.*one.py:\ndef g\(\):\n    return 1",
        ),
        (f"def g():\n{_SYNC}{_SYNC}", "1 definitions of g have this 2 times"),
        (f"def g():\n{_SYNC}\n\ndef g():\n{_SYNC}", "2 definitions of g have this 2 times"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(text: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(StaleError, match=f"(?s){found}"):
        _mutant("g").patched(_code(tmp_path, one=text))
