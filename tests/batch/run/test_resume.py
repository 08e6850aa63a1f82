"""Runs that stop at any point: the next one finishes, repeats nothing that was done, and gives the same store."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrate import load_spec, run
from migrate.batch.home import load_plan
from migrate.batch.ledger.standing import read_standing
from migrate.batch.ledger.table import Ledger
from migrate.batch.steps import comparisons as verify_ranges
from migrate.errors import ChunkFailedError, FencedError
from migrate.model.events import RUN_EVENTS, Event
from migrate.model.ledger_row import Step
from migrate.model.receipt import Receipt, read_receipt
from migrate.spec.spec import Spec
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.refunds import make_migration, result_of
from tests.support import make_store, numbered, raises, raw_spec, read_family, read_ledger, tree_state

pytestmark = pytest.mark.usefixtures("commit_per_chunk")
NOT_SENT_BY_EACH_RUN = {"warning", "chunk.failed", "chunks.adopted", "verify.resumed", "conversion.revised"}
OF_A_BROKER = ("times.", "changelog.")
FULL_RUN = [name for name in RUN_EVENTS if name not in NOT_SENT_BY_EACH_RUN and not name.startswith(OF_A_BROKER)]


@dataclass(frozen=True, slots=True)
class Reference:
    """What an uninterrupted run gives."""

    result: dict[str, object]
    chunks: int
    events: Counter[str]


@pytest.fixture(scope="module", autouse=True)
def at_once() -> Iterator[None]:
    """A verification commits each range that it has compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_ranges, "SECONDS_BETWEEN_COMMITS", 0.0)
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    base = tmp_path_factory.mktemp("reference") / "base"
    watch = StopAt()
    report = run(load_spec(make_migration(base)), on_event=watch)
    return Reference(result_of(base), report.totals.chunks, watch.seen)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load_spec(make_migration(tmp_path / "base"))


def _receipts(spec: Spec) -> list[Receipt]:
    return read_standing(spec.home).receipts


def _uncommitted(spec: Spec) -> list[Receipt]:
    """Of attempts that ended, but that no row of the ledger names."""
    known = {receipt.attempt for receipt in _receipts(spec)}
    files = sorted((spec.home / "chunks").rglob("*.receipt.json"))
    receipts = [read_receipt(file) for file in files]
    return [receipt for receipt in receipts if receipt is not None and receipt.attempt not in known]


def _work(receipt: Receipt) -> tuple[object, ...]:
    """What was done, whatever it is called: one that was not committed is adopted under another run's name."""
    return receipt.store_partition, receipt.keys.start, receipt.keys.end, receipt.seconds


def _unnamed_files(spec: Spec) -> list[Path]:
    """Files of attempts that no row names, and of new stores that no row names."""
    attempts = {receipt.attempt for receipt in _receipts(spec)}
    runs = {row.facts["folder"] for row in read_ledger(spec.home) if row.step is Step.ASSEMBLED}
    chunks = [file for file in (spec.home / "chunks").rglob("*") if file.is_file()]
    stores = [file.parent for file in (spec.home / "new").rglob("CURRENT")]
    return [file for file in chunks if file.name.partition(".")[0] not in attempts] + [
        store for store in stores if str(store.relative_to(spec.home)) not in runs
    ]


def test_a_full_run_sends_every_event(reference: Reference) -> None:
    assert set(reference.events) == set(FULL_RUN)
    assert reference.chunks >= 6
    assert len(reference.result["dead letters"]) > 20  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "occurrence"),
    [
        *((name, 1) for name in FULL_RUN),
        ("chunk.started", 4),
        ("chunk.finished", 3),
        ("chunk.committed", 4),
        ("assemble.ingested", 2),
        ("assemble.committed", 2),
    ],
)
def test_a_run_that_stopped_is_finished_by_the_next(
    name: str, occurrence: int, reference: Reference, spec: Spec
) -> None:
    before = tree_state(spec.source_path)
    stop = StopAt(name, occurrence)
    raises(StoppedError, "", run, spec, on_event=stop)
    assert stop.seen[name] == occurrence
    watch = StopAt()
    done = _receipts(spec) + _uncommitted(spec)
    report = run(spec, on_event=watch)
    assert report.state == "published"
    assert result_of(spec.base_dir) == reference.result
    assert tree_state(spec.source_path) == before
    after = _receipts(spec)
    assert len(after) == reference.chunks
    assert {_work(receipt) for receipt in done} <= {_work(receipt) for receipt in after}
    assert watch.seen["chunk.started"] == reference.chunks - len(done)
    assert _unnamed_files(spec) == []
    if name != "publish.committed":
        assert report.chunks_done_before == len(done)
        assert report.dead_letters == spec.home / "dead-letters"


@pytest.mark.parametrize(
    ("first", "second"),
    [("chunk.committed", "assemble.ingested"), ("assemble.ingested", "run.begun"), ("publish.renamed", "plan.stored")],
)
def test_a_resume_may_be_stopped_too(first: str, second: str, reference: Reference, spec: Spec) -> None:
    raises(StoppedError, "", run, spec, on_event=StopAt(first))
    try:
        run(spec, on_event=StopAt(second))
    except StoppedError:
        run(spec)
    assert result_of(spec.base_dir) == reference.result


def test_a_stop_at_every_event_in_turn(reference: Reference, spec: Spec) -> None:
    """Each run gets one event further than the one before."""
    for name in FULL_RUN:
        raises(StoppedError, "", run, spec, on_event=StopAt(name))
    assert result_of(spec.base_dir) == reference.result
    assert len(_receipts(spec)) == reference.chunks


@pytest.mark.parametrize(("first", "second"), [("2 KiB", "7 KiB"), ("7 KiB", "2 KiB"), ("2 KiB", "1 GiB")])
def test_a_resume_with_another_chunk_size_does_the_rest(first: str, second: str, tmp_path: Path) -> None:
    records = numbered(1500)
    source = make_store(tmp_path / "old", records)
    specs = [raw_spec(tmp_path, source, run={"chunk_size": size}) for size in (first, second)]
    raises(StoppedError, "", run, specs[0], on_event=StopAt("chunk.committed", 3))
    done = _receipts(specs[0])
    assert done
    report = run(specs[1])
    after = _receipts(specs[1])
    assert [receipt for receipt in after if receipt in done] == done
    assert sum(receipt.records_in for receipt in after) == 1500 == report.totals.records_in
    assert read_family(tmp_path / "new") == records
    plan = load_plan(specs[0].home)
    assert plan is not None
    assert plan.revision == 2


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: os.truncate(file, 100)], ids=["lost", "cut short"])
def test_a_chunk_whose_file_is_not_here_is_not_recorded(spoil: Callable[[Path], object], tmp_path: Path) -> None:
    """As where a worker has another directory under the work_dir's name."""
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(1500)), run={"chunk_size": "4 KiB"})

    def lose(event: Event) -> None:
        if event.name == "chunk.finished":
            spoil(spec.home / event.facts["receipts"][0].written[0].file)

    caught = raises(ChunkFailedError, f"its files are not in {spec.home}", run, spec, on_event=lose)
    assert "one directory, mounted here and on every worker" in caught.hint
    assert _receipts(spec) == []
    run(spec)
    assert read_family(tmp_path / "new") == numbered(1500)


def test_a_run_that_was_taken_over_stops_and_cleans_up_nothing(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(1500))
    spec = raw_spec(tmp_path, source, run={"chunk_size": "4 KiB"})

    def take_over(event: Event) -> None:
        if event.name == "run.begun":
            Ledger(spec.home, event.facts["plan"].migration_id, "the other run")

    raises(FencedError, "", run, spec, on_event=take_over)
    assert list((spec.home / "chunks").rglob("*.sst"))
    assert [row.run_id for row in read_ledger(spec.home)][-1] == "the other run"
    run(spec)
    assert read_family(tmp_path / "new") == numbered(1500)


def test_the_intent_to_publish_is_recorded_before_the_rename(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(100)))
    raises(StoppedError, "", run, spec, on_event=StopAt("publish.renamed"))
    assert [row.step for row in read_ledger(spec.home)][-1] is Step.PUBLISHING
    assert (tmp_path / "new").is_dir()
