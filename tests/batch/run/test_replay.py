"""`replay`: a mended function takes over, and the new stores are those that it alone would have made."""

import json
from pathlib import Path
from typing import Any

import pytest

from migrate import Spec, cutover, finalize, replay, rollback, run, status, verify
from migrate.batch.ledger.standing import read_standing
from migrate.batch.preflight.doctor import doctor
from migrate.errors import RefusedError, RejectedError, SourceChangedError, SpecError, VerificationError
from migrate.model.ledger_row import Step
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import make_store, numbered, open_store, raises, raw_spec, read_family, read_ledger

RECORDS = numbered(900)
PICKY = """
def convert(record):
    if record.key.endswith(b"50"):
        raise ValueError(f"no total in {record.key.decode()}")
    return record
"""
MENDED = """
from dataclasses import replace
def convert(record):
    return replace(record, value=b"mended") if record.key.endswith(b"50") else record
"""
HALF_MENDED = """
from dataclasses import replace
def convert(record):
    if record.key.endswith(b"450"):
        raise ValueError(f"no total in {record.key.decode()}")
    return replace(record, value=b"mended") if record.key.endswith(b"50") else record
"""
TOO_MUCH = """
from dataclasses import replace
def convert(record):
    return replace(record, value=b"mended") if record.key.endswith((b"50", b"1")) else record
"""
EXPECTED = {key: b"mended" if key.endswith(b"50") else value for key, value in RECORDS.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", RECORDS)
    write(tmp_path, PICKY)
    return tmp_path


def write(folder: Path, code: str) -> None:
    """Put the function's module beside the spec."""
    (folder / "conversion.py").write_text(code, encoding="utf-8")


def spec_in(folder: Path, *, published: bool = True, **of_run: Any) -> Spec:  # noqa: ANN401 - TOML's own types
    """The spec of the folder; not `published`: the new store takes the old one's place."""
    spec = raw_spec(
        folder,
        folder / "store",
        run={"chunk_size": "3 KiB", "on_reject": "skip", **of_run},
        conversion={"function": "conversion:convert"},
    )
    target = spec.target if published else spec.target.model_copy(update={"path": None})
    return spec.model_copy(update={"target": target})


def with_rejects(folder: Path, **how: Any) -> Spec:  # noqa: ANN401 - TOML's own types
    """A run that left records out, which nothing accepts."""
    spec = spec_in(folder, **how)
    if spec.target_path is None:
        run(spec)
    else:
        raises(RejectedError, "", run, spec)
    return spec


def attempts(spec: Spec) -> dict[bytes | None, str]:
    """The attempts in force, by the first key of their chunk."""
    return {receipt.keys.start: receipt.attempt for receipt in read_standing(spec.home).receipts}


def test_only_chunks_with_rejects_are_rewritten(folder: Path) -> None:
    spec = with_rejects(folder, verify="digest")
    before, lacking = attempts(spec), {r.attempt for r in read_standing(spec.home).receipts if r.rejected}
    write(folder, MENDED)
    report = replay(spec)
    assert (report.state, report.totals.rejected, report.verification.mode) == ("published", 0, "full")
    assert any("verified in full" in warning for warning in report.warnings)
    assert report.chunks_done_before == len(before) - len(lacking) > 0
    assert read_family(folder / "new") == EXPECTED
    after = attempts(spec)
    assert {before[start] for start in before if before[start] != after[start]} == lacking
    assert run(spec).next_step.startswith("already migrated")


def test_a_run_that_failed_goes_on_where_it_stopped(folder: Path) -> None:
    spec = spec_in(folder, on_reject="fail", published=False)
    raises(RejectedError, "", run, spec)
    done = attempts(spec)
    write(folder, HALF_MENDED)
    assert "stateferry replay SPEC" in raises(SourceChangedError, "", run, spec).hint
    raises(RejectedError, "key-00000450", replay, spec)
    half = attempts(spec)
    write(folder, MENDED)
    report = replay(spec)
    assert (report.state, report.chunks_done_before) == ("verified", len(half))
    assert done.items() <= half.items() <= attempts(spec).items()
    assert [row.facts["number"] for row in read_ledger(spec.home) if row.step is Step.REVISED] == [1, 2]
    cutover(spec)
    assert read_family(folder / "store") == EXPECTED


@pytest.mark.parametrize(
    "event, resumed_by", [("conversion.revised", run), ("chunk.finished", replay), ("publish.renamed", replay)]
)
def test_an_interrupted_replay_is_resumed(folder: Path, event: str, resumed_by: Any) -> None:  # noqa: ANN401 - either
    spec = with_rejects(folder)
    write(folder, MENDED)
    raises(StoppedError, "", replay, spec, on_event=StopAt(event))
    write(folder, PICKY)
    raises(SourceChangedError, "", run, spec)
    write(folder, MENDED)
    resumed_by(spec)
    assert read_family(folder / "new") == EXPECTED
    assert sum(row.step is Step.REVISED for row in read_ledger(spec.home)) == 1


def test_a_function_that_changes_other_records_too_is_a_mismatch_until_it_is_mended(folder: Path) -> None:
    spec = with_rejects(folder, published=False, verify="off")
    write(folder, TOO_MUCH)
    found = raises(VerificationError, "", replay, spec)
    assert "changes other records too" in found.hint
    assert "stateferry abandon SPEC" in found.hint
    raises(VerificationError, "", cutover, spec, unverified=True)
    write(folder, MENDED)
    assert replay(spec).state == "verified"
    cutover(spec)
    assert read_family(folder / "store") == EXPECTED


def test_nothing_but_a_full_verification_opens_the_gate_after_a_replay(folder: Path) -> None:
    spec = with_rejects(folder, published=False, verify="off")
    write(folder, MENDED)
    raises(StoppedError, "", replay, spec, on_event=StopAt("verify.started"))
    allowing = spec.conversion.model_copy(update={"allow": (*spec.conversion.allow, "unverified")})
    spec = spec.model_copy(update={"conversion": allowing})
    assert status(spec).state == "assembled"
    assert verify(spec, mode="digest").verification.ok
    for unverified in (False, True):
        raises(RefusedError, "not verified in full", cutover, spec, unverified=unverified)
    assert "not verified in full" in status(spec).concerns[0].sentence
    assert verify(spec).verification.ok
    assert verify(spec, mode="digest").verification.ok
    cutover(spec)
    assert read_family(folder / "store") == EXPECTED


def _refused(spec: Spec, *said: str) -> None:
    rows = read_ledger(spec.home)
    refused = raises(RefusedError, "", replay, spec)
    assert all(words in str(refused) for words in said), refused
    assert refused.hint
    assert read_ledger(spec.home) == rows


def test_it_is_refused_where_the_new_stores_are_in_use(folder: Path) -> None:
    spec = with_rejects(folder, published=False)
    cutover(spec, accept_rejects=9)
    write(folder, MENDED)
    _refused(spec, "are in use (cut over)", "stateferry rollback SPEC")
    rollback(spec)
    assert replay(spec).state == "verified"
    cutover(spec)
    finalize(spec)
    write(folder, PICKY)
    _refused(spec, "are in use (finalized)", "another `name`")
    assert read_family(folder / "store") == EXPECTED


def test_a_replay_that_was_killed_once_it_had_published_is_over(folder: Path) -> None:
    spec = with_rejects(folder)
    write(folder, MENDED)
    raises(StoppedError, "", replay, spec, on_event=StopAt("publish.committed"))
    again = replay(spec)
    assert (again.state, again.published, again.next_step[:16]) == ("published", folder / "new", "already migrated")
    write(folder, PICKY)
    _refused(spec, "are in use (published)")


def test_it_is_refused_once_published(folder: Path) -> None:
    spec = spec_in(folder, max_rejects=9)
    raises(StoppedError, "", run, spec, on_event=StopAt("publish.renamed"))
    write(folder, MENDED)
    _refused(spec, "was published by a run that was killed", "stateferry run SPEC")
    write(folder, PICKY)
    run(spec)
    write(folder, MENDED)
    _refused(spec, "are in use (published)")


def test_it_is_refused_where_there_is_nothing_to_replay(folder: Path) -> None:
    with pytest.raises(RefusedError, match="was not started"):
        replay(spec_in(folder))
    assert not (folder / "work").exists()
    spec = with_rejects(folder, published=False)
    _refused(spec, "the function has not changed: 9 records that are rejected would be rejected again")
    write(folder, MENDED)
    by_object = spec.conversion.model_copy(update={"function": lambda record: record})
    as_object = spec.model_copy(update={"conversion": by_object})
    raises(SpecError, "does not reach Spark's executors", replay, as_object, master="local[2]")
    changed = spec.model_copy(update={"conversion": spec.conversion.model_copy(update={"default_timestamp_ms": 5})})
    _refused(changed, "more has changed since: [conversion]")
    with open_store(folder / "store") as store:
        store[b"later"] = b"record"
    _refused(spec, "changed since: store store")


def test_a_complete_run_has_nothing_to_replay_unless_the_function_changed(folder: Path) -> None:
    write(folder, MENDED)
    spec = spec_in(folder, published=False)
    run(spec)
    _refused(spec, "nothing to replay")
    write(folder, MENDED.replace('b"mended"', 'b"".join([b"men", b"ded"])'))
    assert replay(spec).totals.chunks == len(attempts(spec))


def test_another_chunk_size_after_a_replay_is_another_plan_of_the_same_migration(folder: Path) -> None:
    spec = with_rejects(folder, published=False)
    migration = status(spec).migration_id
    write(folder, MENDED)
    larger = spec.model_copy(update={"run": spec.run.model_copy(update={"chunk_size": 1 << 20})})
    replay(larger)
    assert (status(larger).migration_id, status(larger).plan_revision) == (migration, 2)
    (same,) = [check for check in doctor(larger, master=None).checks if check.name == "migration.same"]
    assert same.outcome == "ok"
    cutover(larger)
    assert read_family(folder / "store") == EXPECTED


def test_without_its_plan_a_replayed_migration_is_refused(folder: Path) -> None:
    spec = with_rejects(folder, published=False)
    write(folder, MENDED)
    replay(spec)
    (plan,) = spec.home.glob("plan-*.json")
    content = plan.read_bytes()
    plan.unlink()
    for code in (MENDED, PICKY):
        write(folder, code)
        raises(RefusedError, "", run, spec)
    write(folder, MENDED)
    plan.write_bytes(content)
    cutover(spec)
    assert read_family(folder / "store") == EXPECTED


@pytest.mark.parametrize("is_tail", [True, False])
@pytest.mark.parametrize("code", [PICKY, MENDED])
def test_chunks_of_two_functions_are_not_mixed_where_the_row_of_a_revision_is_lost(
    folder: Path, code: str, *, is_tail: bool
) -> None:
    spec = with_rejects(folder, published=False, verify="digest")
    write(folder, MENDED)
    replay(spec)
    rows = read_ledger(spec.home)
    lost = next(row.sequence for row in rows if row.step is Step.REVISED)
    for version in range(lost, 1 + (rows[-1].sequence if is_tail else lost)):
        entry = spec.home / "ledger" / "_delta_log" / f"{version:020d}.json"
        added = next(line["add"] for line in map(json.loads, entry.read_text().splitlines()) if "add" in line)
        for file in (entry, spec.home / "ledger" / added["path"]):
            file.unlink() if is_tail else file.write_bytes(b"")
    write(folder, code)
    if code == PICKY:
        run(spec)
        cutover(spec, accept_rejects=9)
    else:
        raises(SourceChangedError, "function", run, spec)
        replay(spec)
        cutover(spec)
    kept = {key: value for key, value in RECORDS.items() if not key.endswith(b"50")}
    assert read_family(folder / "store") == (kept if code == PICKY else EXPECTED)
