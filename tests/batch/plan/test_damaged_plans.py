"""A stored plan with a bit flipped, or with chunks that leave a gap: refused, with the way out, or harmless."""

import random
from pathlib import Path

import pytest

from migrate import abandon, run
from migrate.batch import home as stored_plan
from migrate.batch.home import load_plan, store_plan
from migrate.errors import ExitCode, RefusedError
from migrate.model.plan import Chunk, Plan, newest_plan
from migrate.spec.spec import Spec
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.builders import chunk, plan
from tests.support import make_store, numbered, raises, raw_spec, read_family

pytestmark = pytest.mark.usefixtures("commit_per_chunk")
RECORDS = numbered(1500)
FLIPS = 12


@pytest.fixture
def interrupted(tmp_path: Path) -> Spec:
    """A migration of many chunks, three of them done."""
    source = make_store(tmp_path / "old", RECORDS)
    spec = raw_spec(tmp_path, source, run={"chunk_size": "4 KiB"})
    raises(StoppedError, "", run, spec, on_event=StopAt("chunk.committed", 3))
    return spec


def _file(spec: Spec) -> Path:
    file = newest_plan(spec.home)
    assert file is not None
    return file


def _unseal(content: bytes) -> bytes:
    return content[: content.rindex(b',\n "digest"')] + b"\n}"


def _flipped_bounds(content: bytes) -> list[bytes]:
    """One bit in a bound of a chunk, twelve times."""
    rng = random.Random(12)
    chunks = Plan.model_validate_json(_unseal(content)).chunks
    bounds = [each.keys.start.hex().encode() for each in chunks if each.keys.start]
    found: list[bytes] = []
    while len(found) < FLIPS:
        bound = rng.choice(bounds)
        at = rng.choice([place for place in range(len(content)) if content.startswith(bound, place)])
        at += rng.randrange(len(bound))
        changed = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        found.append(changed)
    return found


@pytest.mark.parametrize("sealed", [True, False], ids=["", "without its digest"])
def test_a_flipped_bit_in_a_bound_is_refused_by_the_next_run(sealed: bool, interrupted: Spec, tmp_path: Path) -> None:
    file = _file(interrupted)
    content = file.read_bytes()
    for flipped in _flipped_bounds(content):
        file.write_bytes(flipped if sealed else _unseal(flipped))
        caught = raises(RefusedError, f"{file.name} is damaged", run, interrupted)
        assert caught.exit_code is ExitCode.REFUSED
        assert "abandon" in caught.hint
        assert not (tmp_path / "new").exists()
    file.write_bytes(content)
    run(interrupted)
    assert read_family(tmp_path / "new") == RECORDS


def test_a_damaged_plan_is_made_again_once_it_is_removed(interrupted: Spec, tmp_path: Path) -> None:
    """What is finished is kept: so says the hint."""
    _file(interrupted).unlink()
    watch = StopAt()
    report = run(interrupted, on_event=watch)
    assert (report.chunks_done_before, watch.seen["chunk.started"]) == (3, report.totals.chunks - 3)
    assert read_family(tmp_path / "new") == RECORDS


def test_a_migration_with_a_damaged_plan_can_be_given_up(interrupted: Spec, tmp_path: Path) -> None:
    file = _file(interrupted)
    file.write_bytes(_flipped_bounds(file.read_bytes())[0])
    abandon(interrupted)
    assert not interrupted.home.exists()
    run(interrupted)
    assert read_family(tmp_path / "new") == RECORDS


def test_every_flipped_bit_of_a_stored_plan_is_refused_or_harmless(tmp_path: Path) -> None:
    made = plan(chunk(0, None, b"\x80\xff"), chunk(1, b"\x80\xff", None))
    store_plan(tmp_path, made)
    file = newest_plan(tmp_path)
    assert file is not None
    content = file.read_bytes()
    refused = 0
    for at in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[at // 8] ^= 1 << at % 8
        file.write_bytes(flipped)
        try:
            assert load_plan(tmp_path) == made, f"bit {at}"
        except RefusedError:
            refused += 1
    assert refused > 8 * len(content) - 64


def _moved(chunks: tuple[Chunk, ...], number: int, **bounds: bytes | None) -> list[Chunk]:
    keys = chunks[number].keys.model_copy(update=bounds)
    return [each.model_copy(update={"keys": keys}) if each is chunks[number] else each for each in chunks]


CHUNKS = (chunk(0, None, b"g"), chunk(1, b"g", b"p"), chunk(2, b"p", None))
FLAWS = {
    "a gap": (_moved(CHUNKS, 1, start=b"h"), "leave a gap between"),
    "an overlap": (_moved(CHUNKS, 1, start=b"f"), "overlap between"),
    "not from the start": (_moved(CHUNKS, 0, start=b"a"), 'start at "a"'),
    "not to the end": (_moved(CHUNKS, 2, end=b"z"), 'end at "z"'),
    "one is missing": ([CHUNKS[0], CHUNKS[2]], "leave a gap between"),
    "one twice": ([CHUNKS[0], CHUNKS[1], CHUNKS[1], CHUNKS[2]], "overlap between"),
    "an end in the middle": (_moved(CHUNKS, 1, end=None), "overlap between"),
    "an empty one": ([*CHUNKS[:2], chunk(2, b"p", b"p"), CHUNKS[2]], "include an empty one"),
    "of another store": ([*CHUNKS, chunk(3, partition="other")], "a RocksDB directory that the plan does not have"),
    "none": ([], "are missing"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_plan_that_does_not_cover_the_store_is_neither_stored_nor_loaded(
    flaw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks, message = FLAWS[flaw]
    made = plan(*CHUNKS).model_copy(update={"chunks": tuple(chunks)})
    raises(ValueError, message, store_plan, tmp_path, made)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(stored_plan, "coverage_flaw", lambda _: None)
        store_plan(tmp_path, made)
    assert "rerun" in raises(RefusedError, message, load_plan, tmp_path).hint
