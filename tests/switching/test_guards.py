"""What is looked at before anything is removed or said to be done, whatever the ledger believes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from migrate import (
    RefusedError,
    Spec,
    VerificationError,
    abandon,
    cutover,
    finalize,
    load_spec,
    rollback,
    run,
    snapshot,
    status,
    verify,
)
from migrate.ledger import Step, read_ledger
from tests.support import (
    KEY_VALUE,
    TIMESTAMPED,
    copy_fixture,
    flip_byte,
    make_spec,
    make_store,
    numbered,
    open_store,
    raw_spec,
    read_family,
    tree_state,
)

STORES = {"stores": ["orders", "refunds"]}


def _in_place(base: Path, application: Path, **sections: object) -> Spec:
    sections = {"source": STORES, "target": {"path": None}, **sections}
    return make_spec(base, application, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """Verified new stores of a real application, not cut over yet."""
    spec = _in_place(tmp_path, copy_fixture(tmp_path))
    run(spec)
    return spec


@pytest.mark.parametrize(("work_dir", "name"), [(".", "state"), ("state/..", "state")])
def test_a_folder_of_ours_that_would_hold_the_application_is_refused(work_dir: str, name: str, tmp_path: Path) -> None:
    """`abandon` and `finalize` would remove it one day."""
    application = copy_fixture(tmp_path / "state")
    before = tree_state(application)
    spec = _in_place(tmp_path, application, work_dir=work_dir, name=name)
    for verb in (run, abandon, finalize):
        with pytest.raises(RefusedError, match="lies inside the migration's own folder"):
            verb(spec)
    assert tree_state(application) == before


def test_a_target_in_a_folder_of_ours_is_refused(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(10))
    spec = raw_spec(tmp_path, source, target={"path": "work/test/new/store"})
    with pytest.raises(RefusedError, match=r"\[target\] path .* lies inside the migration's own folder"):
        run(spec)


@pytest.mark.parametrize("entry", ["app-state.json", "backups/"])
def test_what_is_not_rocksdbs_must_not_leave_with_the_old_store(entry: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(10))
    (source / entry).mkdir() if entry.endswith("/") else (source / entry).touch()
    with pytest.raises(RefusedError, match=f"holds {entry.strip('/')}, which is not RocksDB's"):
        run(raw_spec(tmp_path, source, target={"path": None}))
    run(raw_spec(tmp_path, source))  # leaves the old directory where it is
    assert (source / entry).exists()


def test_the_way_back_does_not_ask_the_conversion(tmp_path: Path) -> None:
    """The function's module is gone, and so is the plan: rollback needs its journal and nothing else."""
    source = make_store(tmp_path / "old", numbered(100))
    (tmp_path / "shout.py").write_text("def convert(record):\n    return record\n")
    spec = raw_spec(tmp_path, source, target={"path": None}, conversion={"function": "shout:convert"})
    run(spec)
    cutover(spec)
    (tmp_path / "shout.py").unlink()
    next(spec.home.glob("plan-*.json")).unlink()
    assert rollback(spec).state == "rolled back"
    assert read_family(source) == numbered(100)


def test_another_source_is_not_what_was_cut_over(spec: Spec, tmp_path: Path) -> None:
    cutover(spec)
    other = Path(shutil.copytree(spec.source_path, tmp_path / "other"))
    elsewhere = _in_place(tmp_path, other)
    for verb in (rollback, finalize):
        with pytest.raises(RefusedError, match=r"\[source\] is not what was cut over"):
            verb(elsewhere)


def test_a_damaged_old_store_is_not_put_back(spec: Spec) -> None:
    cutover(spec)
    after = tree_state(spec.source_path)
    for file in (spec.home / "old/0_1/orders").glob("*.sst"):
        file.unlink()
    with pytest.raises(RefusedError, match="is not as it was at the cut-over, or cannot be read"):
        rollback(spec, discard_new_writes=True)
    assert tree_state(spec.source_path) == after


def test_old_stores_are_kept_while_the_state_directory_is_not_there(spec: Spec, tmp_path: Path) -> None:
    cutover(spec)
    spec.source_path.rename(tmp_path / "unmounted")
    with pytest.raises(RefusedError, match="is not there"):
        finalize(spec)
    assert (spec.home / "old/0_0/orders/CURRENT").is_file()


def test_old_stores_are_kept_while_one_is_in_use_again(spec: Spec) -> None:
    cutover(spec)
    live = spec.source_path / "0_0/rocksdb/orders"
    shutil.rmtree(live)
    shutil.copytree(spec.home / "old/0_0/orders", live)
    with pytest.raises(RefusedError, match="holds the old store: somebody has put it back"):
        finalize(spec)


@pytest.mark.parametrize("lost", ["0_1", "0_1/rocksdb", "0_1/rocksdb/orders"])
def test_a_store_that_the_application_has_removed_comes_back(lost: str, spec: Spec) -> None:
    """Kafka Streams removes the directory of a task that moved elsewhere."""
    before = read_family(spec.source_path / "0_1/rocksdb/orders")
    cutover(spec)
    shutil.rmtree(spec.source_path / lost)
    with pytest.raises(RefusedError, match="are not where the cut-over put them"):
        rollback(spec)
    assert rollback(spec, discard_new_writes=True).state == "rolled back"
    assert read_family(spec.source_path / "0_1/rocksdb/orders") == before
    assert "orders-app-orders-changelog 1" in (spec.source_path / "0_1/.checkpoint").read_text()


def test_refuted_stores_are_not_cut_over_whatever_the_spec_says(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(100))
    spec = raw_spec(tmp_path, source, target={"path": None})
    run(spec)
    slot = next((spec.home / "new").glob("*/old"))
    with open_store(slot) as database:
        database[b"extra"] = b"key"
    with pytest.raises(Exception, match="extra"):
        run(spec)
    careless = raw_spec(tmp_path, source, target={"path": None}, run={"verify": "off"})
    with pytest.raises(VerificationError, match="found the new stores wrong"):
        cutover(careless, unverified=True)
    assert run(spec).state == "verified"


def test_nothing_is_verified_in_the_middle_of_a_switch(spec: Spec) -> None:
    def stop(event: object) -> None:
        if getattr(event, "name", "") == "cutover.exchanged":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cutover(spec, on_event=stop)
    with pytest.raises(RefusedError, match="cannot be verified: it is half way: cutting over"):
        verify(spec)
    assert status(spec).state == "cutting over"


def test_a_premature_switch_fences_nobody_off(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(100))
    spec = raw_spec(tmp_path, source, target={"path": None}, run={"chunk_size": "1 KiB"})

    def stop(event: object) -> None:
        if getattr(event, "name", "") == "chunk.committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, on_event=stop)
    before = len(read_ledger(spec.home))
    for verb in (cutover, rollback, finalize):
        with pytest.raises(RefusedError):
            verb(spec)
    assert len(read_ledger(spec.home)) == before
    assert {row.step for row in read_ledger(spec.home)} == {Step.RUN, Step.CHUNK}


def test_a_snapshot_that_a_run_took_for_itself_is_not_one_to_convert_later(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    spec = _in_place(tmp_path, application, run={"time_budget": "1s"})
    run(spec)
    with pytest.raises(RefusedError, match="was taken by a run, for itself alone"):
        run(_in_place(tmp_path, application, run={"source": "snapshot"}))


def test_a_changelog_that_was_made_anew_is_noticed(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    spec = _in_place(tmp_path, application, run={"source": "snapshot"})
    snapshot(spec)
    run(spec)
    checkpoint = application / "0_0/.checkpoint"
    checkpoint.write_text(
        checkpoint.read_text().replace("orders-app-refunds-changelog 0 208", "orders-app-refunds-changelog 0 5")
    )
    with pytest.raises(RefusedError, match="at an earlier changelog position than its snapshot"):
        cutover(spec)


def test_damaged_chunk_files_are_made_again(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(3000))
    spec = raw_spec(tmp_path, source, run={"chunk_size": "16 KiB"})

    def stop(event: object) -> None:
        if getattr(event, "name", "") == "assemble.started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, on_event=stop)
    shorter, spoilt = sorted((spec.home / "chunks").rglob("*.sst"))[:2]
    shorter.write_bytes(shorter.read_bytes()[:100])
    flip_byte(spoilt, spoilt.stat().st_size - 1)
    report = run(spec)
    assert any(spoilt.parent.name in warning for warning in report.warnings)
    assert read_family(tmp_path / "new") == numbered(3000)


def test_a_spec_file_is_all_that_a_switch_needs(spec: Spec, tmp_path: Path) -> None:
    file = tmp_path / "migration.toml"
    file.write_text(
        'name = "test"\nwork_dir = "work"\n'
        f'[source]\nformat = "{KEY_VALUE}"\npath = "{spec.source_path}"\nstores = ["orders", "refunds"]\n'
        f'[target]\nformat = "{TIMESTAMPED}"\n'
    )
    assert cutover(load_spec(file)).state == "cut over"
    assert rollback(load_spec(file)).state == "rolled back"
