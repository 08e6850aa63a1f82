"""What a run refuses, and what it does not do twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from migrate import ExitCode, RefusedError, RunReport, StoreLockedError, migrate_store, run
from migrate.errors import InterruptedMigrationError, SourceChangedError, VerificationError
from migrate.events import Event
from migrate.ledger import Step, read_ledger
from migrate.spec import Spec
from tests.support import (
    FIXTURE,
    KEY_VALUE,
    TIMESTAMPED,
    copy_fixture,
    kafka_spec,
    make_families,
    make_store,
    numbered,
    open_store,
    raw_spec,
    read_family,
    tree_state,
)

NEW_FAMILY = "keyValueWithTimestamp"


def test_a_store_that_a_process_holds_is_refused(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    program = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'wb')\nfcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(application / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(StoreLockedError, match=str(owner.pid)):
            run(kafka_spec(tmp_path, application))
    assert not (tmp_path / "work").exists()


def test_records_of_another_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=NEW_FAMILY):
        run(kafka_spec(tmp_path, copy_fixture(tmp_path), source={"store": "customers"}))


def test_values_that_are_too_short_for_the_format_are_refused(tmp_path: Path) -> None:
    old = make_families(tmp_path / "old", {NEW_FAMILY: {b"a": b"1", b"b": b"2"}})
    with pytest.raises(RefusedError, match="none of 2 sampled records"):
        migrate_store(old, tmp_path / "new", source=TIMESTAMPED, target=KEY_VALUE)


def test_a_target_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(RefusedError, match="exists already"):
        run(raw_spec(tmp_path, make_store(tmp_path / "old", numbered(3))))


def test_a_work_dir_inside_the_application_is_refused(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    with pytest.raises(RefusedError, match="inside the application"):
        run(kafka_spec(tmp_path, application, work_dir=str(application / "work")))


# Once, and the same


def test_a_published_migration_is_not_done_again(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    first = run(spec)
    before = tree_state(tmp_path / "new")
    again = run(spec)
    assert (again.state, again.totals) == ("published", first.totals)
    assert tree_state(tmp_path / "new") == before


def test_a_changed_source_is_refused_by_name(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(1000))
    spec = raw_spec(tmp_path, source, run={"chunk_size": "4 KiB"})
    _stop_at("chunk.committed", spec)
    with open_store(source) as database:
        database[b"key-x"] = b"written meanwhile"
    with pytest.raises(SourceChangedError, match="changed since: store old"):
        run(spec)


def test_a_source_that_changed_before_the_plan_was_stored_is_snapshot_again(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(100))
    spec = raw_spec(tmp_path, source)
    _stop_at("snapshot.taken", spec)
    with open_store(source) as database:
        database[b"key-x"] = b"written meanwhile"
    run(spec)
    assert read_family(tmp_path / "new") == numbered(100) | {b"key-x": b"written meanwhile"}


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"conversion": {"default_timestamp_ms": 9}}, "[conversion]"),
        ({"conversion": {"function": "tests.migrate.conversions:picky"}}, "function"),
        ({"target": {"path": "elsewhere"}}, "[target]"),
    ],
    ids=["conversion", "function", "target"],
)
def test_another_migration_under_the_same_name_is_refused(
    sections: dict[str, dict[str, object]], named: str, tmp_path: Path
) -> None:
    source = make_store(tmp_path / "old", numbered(1000))
    _stop_at("run.begun", raw_spec(tmp_path, source))
    with pytest.raises(SourceChangedError) as caught:
        run(raw_spec(tmp_path, source, **sections))
    assert named in caught.value.message


class StoppedError(Exception):
    """Raised by a listener."""


def _stop_at(name: str, spec: Spec) -> None:
    def listen(event: Event) -> None:
        if event.name == name:
            raise StoppedError

    with pytest.raises(StoppedError):
        run(spec, on_event=listen)


def test_a_target_that_appeared_meanwhile_is_never_taken_for_ours(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    _stop_at("publish.started", spec)
    (tmp_path / "new").mkdir()
    with pytest.raises(RefusedError, match="exists already"):
        run(spec)
    assert list((tmp_path / "new").iterdir()) == []


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

    with pytest.raises(VerificationError, match=r'missing in the new store: old, .*"key-00000050"') as caught:
        run(spec, on_event=damage)
    assert caught.value.exit_code is ExitCode.MISMATCH
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

    with pytest.raises(RuntimeError):
        run(spec, on_event=stop)
    with open_store(folders[0]) as database:
        database.delete(b"key-00000050")

    with pytest.raises(VerificationError):
        run(spec)
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
