"""Each situation with `plan`, `doctor` and `run`: a run does what the dry run predicts."""

from pathlib import Path

import pytest

import migrate
from migrate.batch.home import load_plan
from migrate.batch.preflight.check import CheckReport
from migrate.batch.preflight.doctor import doctor
from migrate.dry_run.dry_run_report import DryRunReport
from migrate.errors import MigrationError
from migrate.model.reports import RunReport
from migrate.spec.spec import Spec, load_spec
from tests.bad_input.support import Migration
from tests.dry_run.support import nothing_changes
from tests.situations.situation import DONE, REFUSED, USAGE, Situation
from tests.situations.table import SITUATIONS
from tests.support import tree_state

SAYS_ITS_OWN = {"conversion.rejects", "conversion.keys"}
"""Checks of single records: a run reports the first failure in its own words."""


def test_no_two_situations_have_a_name() -> None:
    assert len({situation.name for situation in SITUATIONS}) == len(SITUATIONS)


@pytest.mark.usefixtures("probes")
@pytest.mark.parametrize("situation", SITUATIONS, ids=[situation.name for situation in SITUATIONS])
def test_every_verb_reports_the_same(situation: Situation, folder: Path) -> None:
    migration = situation.arrange(folder)
    said = situation.words(migration)
    with situation.around(migration) as holder:
        said += [f"is held by process {holder}"] if isinstance(holder, int) else []
        migration.write_spec()
        with nothing_changes(folder):
            is_read = situation.code == DONE or situation.needs_records  # `full` makes a difference only then
            dry_runs = [dry_run(migration, situation, said, full=full) for full in (False, True) if is_read or not full]
            check_doctor(migration, situation, said)
        done, error = really(migration, situation, said)
    for report in dry_runs:
        if report is not None and error is not None and situation.plan is None:
            check_words(report, error)
        if report is not None and done is not None and report.cost is not None and report.tried is not None:
            check_predictions(report, done, migration.load())
    situation.then(migration)


def in_words(happened: str, to_do: str) -> str:
    return " ".join(f"{happened} next: {to_do}".split())


def check_said(text: str, said: list[str]) -> None:
    print(text)
    for words in said:
        assert words[1:] not in text if words.startswith("!") else words in text


def dry_run(migration: Migration, situation: Situation, said: list[str], *, full: bool) -> DryRunReport | None:
    """The report of `plan`; None if it raises an error."""
    code = situation.code if situation.plan is None else situation.plan
    try:
        report = migrate.plan(load_spec(migration.spec_file), full=full)
    except MigrationError as error:
        assert error.exit_code == code
        check_said(in_words(error.message, error.hint), said)
        return None
    assert (report.verdict.exit_code, report.verdict.go) == (code, code == DONE), report.verdict
    assert not any(words[1:] in report.verdict.next_step for words in said if words.startswith("!"))
    if situation.plan is None:
        assert not report.is_estimate
        if code != DONE:
            check_failures(report.checks, said, needs_its_own=False)
    return report


def check_failures(checks: tuple[CheckReport, ...], said: list[str], *, needs_its_own: bool) -> None:
    failed = [check for check in checks if check.outcome == "failed"]
    if needs_its_own or not any(check.name in SAYS_ITS_OWN for check in failed):
        check_said(" ".join(in_words(check.detail, check.fix) for check in failed), said)


def check_doctor(migration: Migration, situation: Situation, said: list[str]) -> None:
    is_seen = situation.plan is None and situation.code in (USAGE, REFUSED) and not situation.needs_records
    code = situation.code if is_seen else DONE
    code = code if situation.doctor is None else situation.doctor
    try:
        report = doctor(load_spec(migration.spec_file))
    except MigrationError as error:
        assert error.exit_code == code
        check_said(in_words(error.message, error.hint), said)
        return
    assert report.exit_code == code, report
    if code != DONE:
        check_failures(report.checks, said, needs_its_own=True)


def really(
    migration: Migration, situation: Situation, said: list[str]
) -> tuple[RunReport | None, MigrationError | None]:
    """Check `run`: only a complete migration is published, and the old store is never changed."""
    before, beside = everything_of(migration), names(migration.folder)
    was_planned, had_home = migration.is_planned, migration.home.exists()
    error = done = None
    try:
        done = migrate.run(load_spec(migration.spec_file))
    except MigrationError as raised:
        error = raised
    assert (DONE if error is None else error.exit_code) == situation.code, error
    assert everything_of(migration)["source"] == before["source"]
    if error is not None:
        check_said(in_words(error.message, error.hint), said)
        assert error.hint
        assert everything_of(migration) == before
        assert names(migration.folder) - beside <= {"work", "__pycache__"}
        if error.exit_code in (REFUSED, USAGE):
            assert migration.is_planned == was_planned
            assert migration.home.exists() == (had_home or situation.needs_records)
    return done, error


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def everything_of(migration: Migration) -> dict[str, object]:
    """The files of the old store and of the target's path."""
    paths = {"source": migration.source, "target": migration.target}
    return {name: tree_state(path) if path.exists() else None for name, path in paths.items()}


def check_words(report: DryRunReport, error: MigrationError) -> None:
    """Check that the first failed check of this kind has the run's message, and the verdict repeats it."""
    mine = [check for check in report.checks if check.outcome == "failed" and check.exit_code == error.exit_code]
    assert mine[0].fix == report.verdict.next_step
    assert mine[0].detail in report.verdict.sentence
    assert report.verdict.sentence.startswith("no go: ")
    if mine[0].name not in SAYS_ITS_OWN and error.exit_code == REFUSED:
        assert (mine[0].detail, mine[0].fix) == (error.message, error.hint)


def check_predictions(report: DryRunReport, done: RunReport, spec: Spec) -> None:
    assert report.cost is not None
    assert report.tried is not None
    assert report.found is not None
    stored = load_plan(spec.home)
    assert stored is not None
    planned = [(chunk.store_partition, chunk.database, chunk.keys) for chunk in report.cost.chunks]
    is_first = report.cost.chunks_done == 0
    if is_first:
        assert planned == [(chunk.store_partition, chunk.database, chunk.keys) for chunk in stored.chunks]
        assert [chunk.estimated_bytes for chunk in report.cost.chunks] == [c.estimated_bytes for c in stored.chunks]
    if report.state != "damaged" and not (spec.home / "ledger-damaged").exists():
        assert report.cost.chunks_done == done.chunks_done_before
        assert len(planned) == done.totals.chunks - done.chunks_done_before
    assert done.totals.records_in == report.found.records
    assert (done.totals.rejected, done.totals.dropped) == (report.tried.rejected, report.tried.dropped)
    assert done.totals.expired == report.tried.expired == report.found.expired
    assert done.totals.shadowed == report.found.shadowed
    if is_first:
        assert done.totals.records_out == report.tried.converted
    if is_first and done.totals.records_out:
        check_size(report.cost.new_bytes, done, spec)


def check_size(predicted: int, done: RunReport, spec: Spec) -> None:
    written = sum(path.stat().st_size for path in (spec.home / "chunks").rglob("*.sst"))
    written = written or sum(path.stat().st_size for store in done.new_stores for path in store.rglob("*.sst"))
    if written:
        assert 0.5 * written < predicted < 2 * written + (1 << 16)
