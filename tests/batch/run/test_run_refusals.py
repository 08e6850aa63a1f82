"""What a run refuses, and what it does not do twice."""

from pathlib import Path

import pytest

from migrate import ExitCode, RunReport, run
from migrate.errors import InterruptedMigrationError, VerificationError
from migrate.model.events import Event
from migrate.model.ledger_row import Step
from migrate.spec.spec import Spec
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import (
    FIXTURE,
    make_store,
    numbered,
    open_store,
    raises,
    raw_spec,
    read_family,
    read_ledger,
    tree_state,
)

# Once, and the same


def test_a_published_migration_is_not_done_again(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    first = run(spec)
    before = tree_state(tmp_path / "new")
    again = run(spec)
    assert (again.state, again.totals) == ("published", first.totals)
    assert tree_state(tmp_path / "new") == before


def test_a_source_that_changed_before_the_plan_was_stored_is_snapshot_again(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(100))
    spec = raw_spec(tmp_path, source)
    _stop_at("snapshot.taken", spec)
    with open_store(source) as database:
        database[b"key-x"] = b"written meanwhile"
    run(spec)
    assert read_family(tmp_path / "new") == numbered(100) | {b"key-x": b"written meanwhile"}


def _stop_at(name: str, spec: Spec) -> None:
    raises(StoppedError, "", run, spec, on_event=StopAt(name))


def test_a_used_up_time_budget_is_an_interruption_that_resumes(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(1000))
    with pytest.raises(InterruptedMigrationError, match="chunks left") as caught:
        run(raw_spec(tmp_path, source, run={"chunk_size": "4 KiB", "time_budget": "0s"}))
    assert caught.value.exit_code is ExitCode.INTERRUPTED
    run(raw_spec(tmp_path, source, run={"chunk_size": "4 KiB"}))
    assert read_family(tmp_path / "new") == numbered(1000)


def test_a_new_store_that_was_damaged_is_not_published(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))

    def damage(event: Event) -> None:
        if event.name == "assemble.committed":
            with open_store(event.facts["folder"]) as database:
                database.delete(b"key-00000050")

    caught = raises(VerificationError, r'missing in the new store: old, .*"key-00000050"', run, spec, on_event=damage)
    assert caught.exit_code is ExitCode.MISMATCH
    assert not (tmp_path / "new").exists()
    assert [row.step for row in read_ledger(spec.home)][-1] is Step.MISMATCH
    assert run(spec).state == "published", "what did not stand the verification is assembled anew"
    assert read_family(tmp_path / "new") == numbered(100)


def test_a_new_store_that_was_damaged_after_its_verification_is_not_published_either(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    folders: list[Path] = []

    def stop(event: Event) -> None:
        if event.name == "assemble.committed":
            folders.append(event.facts["folder"])
        if event.name == "publish.started":
            raise RuntimeError

    raises(RuntimeError, "", run, spec, on_event=stop)
    with open_store(folders[0]) as database:
        database.delete(b"key-00000050")
    raises(VerificationError, "", run, spec)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mode", ["full", "digest", "off"])
def test_every_way_of_verifying(mode: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(500))
    spec = raw_spec(tmp_path, source, run={"verify": mode, "chunk_size": "4 KiB"})
    report: RunReport = run(spec, unverified=mode == "off")
    assert report.verification.mode == mode
    assert report.verification.records == (0 if mode == "off" else 500)
    assert read_family(tmp_path / "new") == numbered(500)


def test_the_fixture_is_as_it_was_committed() -> None:
    """Tests copy it; a test that opened it in place would leave its traces."""
    names = {path.name.split("-")[0].lstrip("0123456789") for path in (FIXTURE / "orders-app").glob("*/rocksdb/*/*")}
    assert names == {"CURRENT", "IDENTITY", "LOCK", "MANIFEST", "OPTIONS", ".log", ".sst"}
