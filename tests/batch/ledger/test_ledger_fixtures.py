"""Migrations that earlier releases left are gone on with: their schemas are read, and never misread."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, cutover, finalize, load_spec, plan, report, rollback, run, status, verify
from migrate.batch.ledger.stored_plan import load_plan
from tests.batch.ledger.make_ledger_fixtures import CHUNKS_DONE, FEW_RECORDS, FOLDER, RECORDS, STAGES
from tests.support import numbered, read_family

SCHEMAS = sorted(path.name for path in FOLDER.parent.iterdir())
STATES = {"planned": "rewriting", "assembled": "assembled", "verified": "verified", "published": "published"}
BEFORE_THE_CUTOVER = ("planned", "assembled", "verified")


def _left(tmp_path: Path, schema: str, name: str) -> Spec:
    shutil.copytree(FOLDER.with_name(schema) / name, tmp_path / "left")
    return load_spec(tmp_path / "left/migration.toml")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_half_rewritten_migration_is_finished(schema: str, tmp_path: Path) -> None:
    spec = _left(tmp_path, schema, "half-rewritten")
    found = status(spec)
    assert (found.state, found.totals.chunks, found.chunks_left > 0) == ("rewriting", CHUNKS_DONE, True)

    report = run(spec)

    assert (report.state, report.chunks_done_before, report.totals.records_out) == ("verified", CHUNKS_DONE, RECORDS)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_migration_that_was_cut_over_is_known_and_taken_back(schema: str, tmp_path: Path) -> None:
    spec = _left(tmp_path, schema, "cut-over")
    assert status(spec).state == "cut over"
    assert run(spec).next_step.startswith("already migrated")

    assert rollback(spec).state == "rolled back"

    assert read_family(spec.source_path) == numbered(RECORDS)
    assert run(spec).state == "verified"
    assert verify(spec).verification.records == RECORDS


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_migration_that_was_cut_over_is_finalized(schema: str, tmp_path: Path) -> None:
    spec = _left(tmp_path, schema, "cut-over")
    assert status(spec).concerns == ()
    assert finalize(spec).state == "finalized"
    assert run(spec).state == "finalized"


def test_a_plan_is_stored_under_the_names_of_earlier_releases() -> None:
    (home,) = (FOLDER / "planned/work").iterdir()
    plan = load_plan(home)
    assert plan is not None
    known = json.loads(plan.model_dump_json(exclude={"key_places"}))  # which came later
    assert json.loads((home / "plan-0001.json").read_text()).items() >= known.items()


@pytest.mark.parametrize("stage", STAGES)
def test_every_verb_knows_each_stage(stage: str, tmp_path: Path) -> None:
    spec = _left(tmp_path, FOLDER.name, stage)
    assert status(spec).state == report(spec).state == plan(spec).state == STATES[stage]
    assert status(spec).chunks_left == (stage == "planned")


@pytest.mark.parametrize("stage", BEFORE_THE_CUTOVER)
def test_each_stage_is_resumed_cut_over_and_taken_back(stage: str, tmp_path: Path) -> None:
    spec = _left(tmp_path, FOLDER.name, stage)
    made = None if stage == "planned" else report(spec).new_stores

    resumed = run(spec)

    assert (resumed.state, resumed.totals.records_out) == ("verified", FEW_RECORDS)
    assert resumed.chunks_done_before == (stage != "planned")
    assert made in (None, resumed.new_stores)
    assert cutover(spec).state == "cut over"
    assert verify(spec).verification.records == FEW_RECORDS
    assert rollback(spec).state == "rolled back"
    assert read_family(spec.source_path) == numbered(FEW_RECORDS)


def test_a_verified_migration_is_cut_over_as_it_was_left(tmp_path: Path) -> None:
    spec = _left(tmp_path, FOLDER.name, "verified")
    assert verify(spec, mode="digest").verification.records == FEW_RECORDS
    assert cutover(spec).state == "cut over"
    assert read_family(spec.source_path) == numbered(FEW_RECORDS)
    assert finalize(spec).state == "finalized"


def test_a_published_migration_is_not_started_again(tmp_path: Path) -> None:
    """Its directory is where the ledger has it, or the command refuses."""
    spec = _left(tmp_path, FOLDER.name, "published")
    for verb in (run, verify, finalize):
        with pytest.raises(RefusedError, match="stateferry-fixtures/published/new"):
            verb(spec)
