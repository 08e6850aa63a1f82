"""Migrations that earlier releases left are gone on with: their schemas are read, and never misread."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from migrate import Spec, finalize, load_spec, rollback, run, status, verify
from tests.migrate.make_ledger_fixtures import CHUNKS_DONE, FOLDER, RECORDS
from tests.support import numbered, read_family

SCHEMAS = sorted(path.name for path in FOLDER.parent.iterdir())


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
