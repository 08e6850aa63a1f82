"""Many store partitions and segments: their rows share commits, and what a killed run did not commit is made again."""

from collections import Counter
from pathlib import Path

import pytest

from migrate import Spec, run
from migrate.batch import identity
from migrate.batch.identity import store_state
from migrate.batch.ledger import table as shared_commits
from migrate.batch.ledger.standing import read_standing
from migrate.batch.ledger.table import Pace
from migrate.batch.steps import assemble
from migrate.errors import InterruptedMigrationError, SourceChangedError, VerificationError
from migrate.model.events import Event
from migrate.model.ledger_row import Row, Step
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.windowed import (
    MINUTE,
    PLAIN,
    checkpoint,
    make_segments,
    read_segments,
    records_of,
    windowed_spec,
    windows,
)
from tests.support import make_families, open_store, raises, raw_spec, read_families, read_ledger

TASKS = 5
RECORDS = windows(60, until=5 * MINUTE)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """Several tasks with several segments each; no commit is due before the last."""
    monkeypatch.setattr(shared_commits, "PACE", Pace(3600.0))
    for task in range(TASKS):
        make_segments(tmp_path / f"app/0_{task}/win", RECORDS, MINUTE)
        (tmp_path / f"app/0_{task}/.checkpoint").write_text(checkpoint(f"app-win-changelog {task} 99"))
    return windowed_spec(tmp_path, target={"path": "new/app"})


def _rows(spec: Spec) -> list[Row]:
    return [row for row in read_ledger(spec.home) if row.step is Step.ASSEMBLED]


def _is_right(base: Path) -> bool:
    found = (records_of(read_segments(base / f"new/app/0_{task}/win"), PLAIN) for task in range(TASKS))
    return all(
        {key: value for each in segments.values() for key, value in each.items()} == RECORDS for segments in found
    )


def test_every_store_partition_has_one_row_and_they_share_commits(spec: Spec, tmp_path: Path) -> None:
    run(spec)
    rows = _rows(spec)
    assert Counter(str(row.store_partition) for row in rows) == {f"0_{task}/win": 1 for task in range(TASKS)}
    assert len({row.sequence for row in rows}) == 1
    assert _is_right(tmp_path)


def test_a_row_says_what_opening_the_new_store_shows(spec: Spec) -> None:
    run(spec)
    standing = read_standing(spec.home)
    assert standing.plan is not None
    for partition in standing.plan.store_partitions:
        folder = standing.assembled[partition.id]
        assert standing.states[folder] == store_state(standing.plan.new_partition(partition).below(folder))


@pytest.mark.parametrize("torn", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_what_a_killed_run_did_not_commit_is_made_again(torn: str, spec: Spec, tmp_path: Path) -> None:
    raises(StoppedError, "", run, spec, on_event=StopAt("assemble.ingested", 3))
    assert _rows(spec) == []
    left = list(spec.home.glob(f"new/*/0_*/win/*/{torn}"))
    assert len({file.parents[1] for file in left}) == 3
    for file in left:
        file.unlink()
    watch = StopAt()
    assert run(spec, on_event=watch).state == "published"
    assert watch.seen["assemble.committed"] == TASKS
    assert _is_right(tmp_path)
    assert len({file.relative_to(spec.home).parts[1] for file in spec.home.glob("new/**/CURRENT")}) == 1


def test_what_an_interrupted_run_has_assembled_is_kept(spec: Spec, tmp_path: Path) -> None:
    class Interrupting(StopAt):
        def __call__(self, event: Event) -> None:
            try:
                super().__call__(event)
            except StoppedError:
                raise InterruptedMigrationError("interrupted") from None

    with pytest.raises(InterruptedMigrationError):
        run(spec, on_event=Interrupting("assemble.started", 4))
    assert len(_rows(spec)) == 3
    watch = StopAt()
    run(spec, on_event=watch)
    assert watch.seen["assemble.started"] == TASKS - 3
    assert _is_right(tmp_path)


def test_nothing_is_left_of_the_links(spec: Spec) -> None:
    run(spec)
    assert not list(spec.home.glob(f"new/*/{assemble.LINKS}"))


def test_a_run_with_nothing_left_to_assemble_leaves_no_folder_of_its_own(spec: Spec) -> None:
    for _ in range(2):
        raises(StoppedError, "", run, spec, on_event=StopAt("verify.started"))
    assert len([*spec.home.glob("new/*")]) == 1


@pytest.mark.parametrize("mode", ["full", "digest"])
def test_a_family_too_many_in_the_last_store_is_found(mode: str, spec: Spec, tmp_path: Path) -> None:
    def add(event: Event) -> None:
        if event.name == "verify.started":
            store = max(each.parent for each in spec.home.glob("new/**/CURRENT"))
            make_families(store, {"more": {}})

    spec = spec.model_copy(update={"run": spec.run.model_copy(update={"verify": mode})})
    caught = raises(VerificationError, "column families", run, spec, on_event=add)
    assert "0_4/win" in str(caught)
    assert run(spec).state == "published"
    assert _is_right(tmp_path)


def test_an_unchanged_source_is_not_opened_to_publish(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(event: Event) -> None:
        if event.name == "verify.committed":
            monkeypatch.delattr(identity, "read_store")

    assert run(spec, on_event=close).state == "published"
    assert _is_right(tmp_path)


def test_a_source_that_was_written_to_is_not_published(spec: Spec, tmp_path: Path) -> None:
    def write(event: Event) -> None:
        if event.name == "publish.started":
            with open_store(next((tmp_path / "app/0_3/win").iterdir())) as database:
                database[b"late"] = b"record"

    raises(SourceChangedError, r"0_3/win", run, spec, on_event=write)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("left", [0, 100])
def test_a_chunk_whose_file_is_changed_before_it_is_assembled_is_rewritten(left: int, tmp_path: Path) -> None:
    """Where nothing is verified, too: the new store would lack its records."""
    records = {b"key-%06d" % number: b"value %d" % number for number in range(500)}
    store = make_families(tmp_path / "store", {"default": records})
    allow = ["unverified", "unclean-source"]
    spec = raw_spec(tmp_path, store, run={"verify": "off", "chunk_size": "4 KiB"}, conversion={"allow": allow})
    changed: list[Path] = []

    def change(event: Event) -> None:
        if event.name == "chunk.committed" and not changed:
            changed.append(next((spec.home / "chunks").rglob("*.sst")))
            changed[0].write_bytes(changed[0].read_bytes()[:-left] if left else b"")

    run(spec, on_event=change)
    assert changed
    assert spec.target_path is not None
    assert read_families(spec.target_path)["default"] == records
