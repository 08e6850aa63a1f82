"""One bit flipped in any file below the work_dir, at any stage: refused, repaired, or the same records."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.flips import KINDS, STAGES, Stage, outcome, positions

REPAIRED = ("marker", "log of the ledger", "data of the ledger", "chunk", "receipt", "rejects", "tables of a new store")
"""What a run makes again, so that it refuses nothing."""
EACH = 2
"""Bits in each file that is tried; `flips` tries random ones."""
CASES = [(stage, verb) for stage, (_, verbs) in STAGES.items() for verb in verbs]


@pytest.fixture(scope="module")
def stages(memory: Path) -> dict[str, Stage]:
    base = Path(tempfile.mkdtemp(dir=memory)).resolve()
    made = {name: Stage(base / name.replace(" ", "-"), name) for name in STAGES}
    for stage in made.values():
        stage.prepare()
    return made


def test_every_kind_of_file_is_met(stages: dict[str, Stage]) -> None:
    assert {kind for stage in stages.values() for kind in stage.files()} == set(KINDS)


@pytest.mark.parametrize(("name", "verb"), CASES, ids=[f"{name}: {verb}" for name, verb in CASES])
def test_a_flipped_bit_is_refused_or_repaired_or_harmless(
    name: str, verb: str, stages: dict[str, Stage], subtests: pytest.Subtests
) -> None:
    stage = stages[name]
    for kind, file, at, bit in _bits(stage):
        with subtests.test(f"{kind}: {file}, byte {at}, bit {bit}"):
            told = outcome(stage, file, at, bit, verb)
            assert not (told and verb == "run" and kind in REPAIRED), told


def _bits(stage: Stage) -> Iterator[tuple[str, Path, int, int]]:
    """Of each kind the file in the middle."""
    home = stage.pristine / stage.spec.home.relative_to(stage.base)
    for kind, files in stage.files().items():
        file = files[len(files) // 2]
        for at, bit in positions((home / file).stat().st_size, EACH):
            yield kind, file, at, bit
