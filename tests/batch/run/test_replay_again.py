"""`replay` after `replay`: a function that is mended again, is not pure, or still rejects records."""

from pathlib import Path

import pytest

from migrate import cutover, replay, run
from migrate.errors import RejectedError, VerificationError
from tests.batch.run.test_replay import (
    EXPECTED,
    HALF_MENDED,
    MENDED,
    PICKY,
    RECORDS,
    attempts,
    spec_in,
    with_rejects,
    write,
)
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import make_store, raises, read_family

REMENDED = MENDED.replace("mended", "remended")
REMENDED_EXPECTED = {key: b"remended" if key.endswith(b"50") else value for key, value in RECORDS.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", RECORDS)
    write(tmp_path, PICKY)
    return tmp_path


def test_a_function_can_be_mended_again_after_its_records_were_converted(folder: Path) -> None:
    spec = with_rejects(folder, published=False)
    first = attempts(spec)
    write(folder, MENDED)
    replay(spec)
    mended = attempts(spec)
    write(folder, REMENDED)
    assert replay(spec).state == "verified"
    kept = first.items() & mended.items()
    assert kept
    assert attempts(spec).items() & mended.items() == kept
    cutover(spec)
    assert read_family(folder / "store") == REMENDED_EXPECTED


def test_what_an_earlier_replay_has_converted_otherwise_is_rewritten_by_the_same_command(folder: Path) -> None:
    spec = spec_in(folder, on_reject="fail", published=False)
    raises(RejectedError, "", run, spec)
    write(folder, MENDED)
    replay(spec)
    write(folder, REMENDED)
    found = raises(VerificationError, "", replay, spec)
    assert "stateferry replay SPEC" in found.hint
    assert replay(spec).state == "verified"
    cutover(spec)
    assert read_family(folder / "store") == REMENDED_EXPECTED


def test_a_function_that_is_not_pure_is_a_mismatch(folder: Path) -> None:
    spec = with_rejects(folder, published=False)
    counted = MENDED.replace('b"mended"', "b'%d' % next(numbers)")
    write(folder, f"from itertools import count\nnumbers = count()\n{counted}")
    assert "or it is not pure" in raises(VerificationError, "", replay, spec).hint
    raises(VerificationError, "", cutover, spec, unverified=True)


def test_a_publication_with_accepted_rejects_is_finished_by_the_same_command(folder: Path) -> None:
    spec = with_rejects(folder)
    write(folder, HALF_MENDED)
    raises(StoppedError, "", replay, spec, accept_rejects=1, on_event=StopAt("publish.renamed"))
    assert replay(spec, accept_rejects=1).state == "published"
    assert read_family(folder / "new") == {key: value for key, value in EXPECTED.items() if not key.endswith(b"450")}
