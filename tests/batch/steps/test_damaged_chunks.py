"""Files of finished chunks that a disk damages, or somebody removes: set aside, and the chunk is rewritten."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import Spec, run, verify
from migrate.batch.home import DAMAGED_CHUNKS
from migrate.batch.ledger.standing import read_standing
from migrate.batch.steps.damage import MOST_TIMES
from migrate.errors import ChunkFailedError, ExitCode, MigrationError
from migrate.model.events import Event
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import flip_byte, make_store, numbered, raises, raw_spec, read_delta, read_family

pytestmark = pytest.mark.usefixtures("commit_per_chunk")
RECORDS = numbered(3000)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return raw_spec(
        tmp_path, make_store(tmp_path / "old", RECORDS), run={"chunk_size": "20 KiB"}, target={"path": None}
    )


def _at(name: str, act: Callable[[], None], *, once: bool = True) -> Callable[[Event], None]:
    left = [1] if once else [1] * 9

    def listener(event: Event) -> None:
        if event.name == name and left:
            left.pop()
            act()

    return listener


def _chunks(spec: Spec) -> list[Path]:
    return sorted((spec.home / "chunks").rglob("*.sst"))


def _third(spec: Spec) -> Path:
    """The file of the third chunk, whoever wrote it."""
    receipts = read_standing(spec.home).receipts
    (name,) = sorted(receipts, key=lambda each: each.keys.start or b"")[2].file_sizes
    return spec.home / name


def _aside(spec: Spec) -> list[str]:
    return sorted(path.name for path in (spec.home / DAMAGED_CHUNKS).rglob("*") if path.is_file())


def _new_records(spec: Spec) -> dict[bytes, bytes]:
    (store,) = {file.parent for file in spec.home.glob("new/**/CURRENT")}
    return read_family(store)


PLACES = {"first": 0, "in a data block": 9000, "in the index": -2000, "in the footer": -30, "last": -1}


@pytest.mark.parametrize("at", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("stage", ["chunk.committed", "assemble.committed", "verify.committed"])
def test_a_damaged_chunk_is_set_aside_and_rewritten(spec: Spec, stage: str, at: int) -> None:
    raises(StoppedError, "", run, spec, on_event=StopAt(stage, 4 if stage == "chunk.committed" else 1))
    file = _third(spec)
    flip_byte(file, at)
    report = run(spec)
    assert report.state == "verified"
    assert _new_records(spec) == RECORDS
    if _aside(spec):  # else a byte that nobody reads was hit
        assert _aside(spec) == sorted([file.name, file.with_suffix("").stem + ".receipt.json"])
        assert any(file.parent.name in line or "rewritten" in line for line in report.warnings)
        assert run(spec).warnings == ()
    else:
        assert at in (PLACES["in the footer"], PLACES["last"])


def test_a_chunk_file_that_vanishes_within_a_run_is_written_again_by_it(spec: Spec) -> None:
    report = run(spec, on_event=_at("assemble.started", lambda: _third(spec).unlink()))
    assert report.state == "verified"
    assert _new_records(spec) == RECORDS
    assert len(report.warnings) == 1
    assert len(_aside(spec)) == 1


def test_a_chunk_file_that_goes_on_vanishing_ends_with_a_sentence(spec: Spec) -> None:
    with pytest.raises(ChunkFailedError, match=f"removed {MOST_TIMES} times") as caught:
        run(spec, on_event=_at("assemble.started", lambda: _third(spec).unlink(), once=False))
    assert caught.value.exit_code is ExitCode.FAILED
    assert "check the disk" in caught.value.hint
    assert run(spec).state == "verified"


def test_the_third_time_a_chunk_is_damaged_points_at_the_disk_whatever_run_it_was(spec: Spec) -> None:
    run(spec)
    for _ in range(MOST_TIMES - 1):
        flip_byte(_third(spec), 9000)
        assert len(run(spec).warnings) == 1
    flip_byte(_third(spec), 9000)
    caught = raises(ChunkFailedError, f"{MOST_TIMES} times", run, spec)
    assert caught.exit_code is ExitCode.FAILED
    assert str(spec.home) in caught.hint
    assert run(spec).state == "verified"


def test_other_chunks_are_not_rewritten(spec: Spec) -> None:
    raises(StoppedError, "", run, spec, on_event=StopAt("assemble.started"))
    before = set(_chunks(spec))
    damaged = _third(spec)
    flip_byte(damaged, 9000)
    run(spec)
    assert before - set(_chunks(spec)) == {damaged}
    assert len(set(_chunks(spec)) - before) == 1


def test_a_new_store_whose_own_files_are_damaged_is_assembled_again(spec: Spec) -> None:
    run(spec)
    (manifest,) = spec.home.glob("new/**/MANIFEST-*")
    flip_byte(manifest, 20)
    caught = raises(MigrationError, "new/", verify, spec)
    assert "stateferry run SPEC" in caught.hint
    before = _chunks(spec)
    assert run(spec).state == "verified"
    assert _new_records(spec) == RECORDS
    assert _chunks(spec) == before
    assert verify(spec).verification.ok


def test_a_standalone_verification_names_the_damaged_store_and_the_way_out(spec: Spec) -> None:
    run(spec)
    flip_byte(_third(spec), 9000)
    assert "stateferry run SPEC" in raises(ChunkFailedError, "new/", verify, spec).hint
    assert run(spec).state == "verified"


def test_damage_in_the_source_is_still_the_sources(spec: Spec, tmp_path: Path) -> None:
    raises(StoppedError, "", run, spec, on_event=StopAt("verify.started"))
    before = _chunks(spec)
    flip_byte(next((tmp_path / "old").glob("*.sst")), 20_000)
    raises(ChunkFailedError, "snapshot", run, spec)
    assert _chunks(spec) == before
    assert not (spec.home / DAMAGED_CHUNKS).exists()


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: flip_byte(file, 30), lambda file: flip_byte(file, -20)])
def test_damaged_rejects_are_written_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    spec = raw_spec(
        tmp_path,
        make_store(tmp_path / "old", RECORDS),
        run={"chunk_size": "40 KiB", "on_reject": "dead-letter"},
        conversion={"function": "tests.shared.conversions:picky", "allow": ["changelog"]},
        target={"path": None},
    )
    raises(StoppedError, "", run, spec, on_event=StopAt("assemble.started"))
    expected = sorted(row["key"] for row in read_delta(spec.home / "dead-letters"))
    assert expected
    file = next((spec.home / "chunks").rglob("*.rejects.parquet"))
    for table in spec.home.glob("dead-letters"):
        table.rename(tmp_path / "gone")
    damage(file)
    report = run(spec)
    assert report.state == "verified"
    assert report.dead_letters is not None
    assert sorted(row["key"] for row in read_delta(report.dead_letters)) == expected


def test_a_damaged_receipt_is_not_adopted(spec: Spec) -> None:
    """Of a chunk whose row is lost: its count, or its range, would be taken for true."""
    raises(StoppedError, "", run, spec, on_event=StopAt("chunk.finished"))
    (receipt,) = (spec.home / "chunks").rglob("*.receipt.json")
    content = json.loads(receipt.read_text())
    end = content["keys"]["end"]
    receipt.write_text(receipt.read_text().replace(end, f"{end[:-1]}{int(end[-1], 16) ^ 1:x}"))
    report = run(spec)
    assert report.chunks_done_before == 0
    assert _new_records(spec) == RECORDS
