"""Verification stands apart from the plan: what a plan leaves out is found, whoever left it out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from migrate import run, verify
from migrate.batch import home as stored_plan
from migrate.batch.chunk.compare_stores import CompareTask
from migrate.batch.home import load_plan, store_plan
from migrate.batch.plan import make_plan as make
from migrate.batch.plan import planned_databases as planned
from migrate.batch.plan.cut import Cuts, cut
from migrate.batch.plan.target_layout import NewSegment, new_segments
from migrate.batch.steps import comparisons as verify_full
from migrate.engine.chunk_source import ChunkSource
from migrate.errors import MigrationError, VerificationError
from migrate.model.key_range import KeyRange
from migrate.model.plan import DatabasePlan, FamilyMapping, Plan
from migrate.spec.spec import Spec
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.database import open_read_only
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.windowed import (
    MINUTE,
    OFFSETS,
    checkpoint,
    make_segments,
    offsets,
    retentions,
    windowed_spec,
    windows,
)
from tests.support import make_families, make_store, numbered, raises, raw_spec

Mode = Literal["full", "digest"]
MODES = pytest.mark.parametrize("mode", ["full", "digest"])
RECORDS = numbered(1500)
KEYS = list(RECORDS)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is stored and loaded whatever it covers."""
    monkeypatch.setattr(stored_plan, "coverage_flaw", lambda _: None)


def _spec(tmp_path: Path, mode: Mode) -> Spec:
    source = make_store(tmp_path / "old", RECORDS)
    return raw_spec(tmp_path, source, run={"chunk_size": "8 KiB", "verify": mode})


# What the planner leaves out


def _misplanned(number: int, bounds: dict[str, bytes]) -> Callable[..., Cuts]:
    """The planner with a mistake: a bound of one chunk is moved."""

    def mistaken(*args: object, **kwargs: object) -> Cuts:
        cuts = cut(*args, **kwargs)  # type: ignore[arg-type]
        ranges = list(cuts.ranges)
        ranges[number] = ranges[number].model_copy(update=bounds)
        return replace(cuts, ranges=tuple(ranges))

    return mistaken


@MODES
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "second", "last"])
@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.usefixtures("unchecked")
def test_a_planned_gap_is_found(
    bound: str, number: int, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = 7
    spec = _spec(tmp_path, mode)
    with open_read_only(spec.source_path) as opened:
        files = [(spec.source_path / file.name, file.last_key) for file in opened.live_files]
    keys = cut(files, spec.run.chunk_size).ranges[number]
    edge = getattr(keys, bound)
    at = KEYS.index(edge) if edge is not None else (0 if bound == "start" else len(KEYS))
    moved = KEYS[at + lost] if bound == "start" else KEYS[at - lost]
    monkeypatch.setattr(make, "cut", _misplanned(number, {bound: moved}))
    caught = raises(VerificationError, "", run, spec)
    if mode == "full":
        first = at if bound == "start" else at - lost
        assert f"{lost} keys missing" in caught.message
        assert KEYS[first].decode() in caught.message
    else:
        assert "committed chunks should be of every possible key" in caught.message
    assert not (tmp_path / "new").exists()
    raises(VerificationError, "", verify, spec, mode=mode)


@pytest.mark.usefixtures("unchecked")
def test_digests_are_held_against_the_number_of_old_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a chunk did not read, its receipt's digest is right, and so is its interval."""
    spec = _spec(tmp_path, "digest")
    whole = ChunkSource.batches

    def one_less(self: ChunkSource, mapping: FamilyMapping, keys: KeyRange | None = None) -> Iterator[Batch]:
        batches = list(whole(self, mapping, keys))
        yield from batches[:-1]
        yield batches[-1].part(0, len(batches[-1]) - 1)

    with monkeypatch.context() as wrong:
        wrong.setattr(ChunkSource, "batches", one_less)
        raises(VerificationError, r"records that the chunks read should be 1,500, is 1,4\d\d", run, spec)
    raises(VerificationError, "keys missing", verify, spec, mode="full")


# What a plan lacks that was stored, well sealed, by whatever mistake


def _tampered(spec: Spec, change: Callable[[Plan], dict[str, object]]) -> None:
    """Plan, change the stored plan, and go on."""
    raises(StoppedError, "", run, spec, on_event=StopAt("plan.stored"))
    stored = load_plan(spec.home)
    assert stored is not None
    store_plan(spec.home, stored.model_copy(update=change(stored)))
    raises(VerificationError, "", run, spec)


def _without_last_mapping(plan: Plan) -> dict[str, object]:
    return {"databases": tuple(each.model_copy(update={"mappings": each.mappings[:-1]}) for each in plan.databases)}


def _without_older(plan: Plan) -> dict[str, object]:
    (database,) = plan.databases
    (mapping,) = database.mappings
    assert mapping.older
    return {"databases": (database.model_copy(update={"mappings": (mapping.model_copy(update={"older": ()}),)}),)}


def _changed(plan: Plan, number: int, **changes: object) -> tuple[DatabasePlan, ...]:
    databases = list(plan.databases)
    databases[number] = databases[number].model_copy(update=changes)
    return tuple(databases)


def _without_last_segment(plan: Plan) -> dict[str, object]:
    gone = plan.databases[-1]
    partitions = plan.new_partitions or plan.store_partitions
    left = [
        each.model_copy(update={"databases": tuple(name for name in each.databases if name != gone.database)})
        for each in partitions
    ]
    return {
        "databases": plan.databases[:-1],
        "chunks": tuple(each for each in plan.chunks if each.database != gone.database),
        "new_partitions": tuple(left),
    }


@MODES
@pytest.mark.usefixtures("unchecked")
def test_a_column_family_that_the_plan_lacks_is_missed(mode: Mode, tmp_path: Path) -> None:
    source = make_families(tmp_path / "old", {"default": RECORDS, "other": numbered(50, prefix=b"o")})
    _tampered(raw_spec(tmp_path, source, run={"verify": mode}), _without_last_mapping)


def _of_the_first_partition(plan: Plan) -> dict[str, object]:
    return {
        "store_partitions": plan.store_partitions[:1],
        "databases": plan.databases[:1],
        "chunks": tuple(each for each in plan.chunks if each.store_partition == plan.store_partitions[0].id),
        "new_partitions": plan.new_partitions[:1],
    }


def _stores(folder: Path, *families: dict[str, dict[bytes, bytes]]) -> None:
    """A task for each."""
    for number, each in enumerate(families):
        make_families(folder / f"app/0_{number}/rocksdb/win", each)
        (folder / f"app/0_{number}/.checkpoint").write_text(checkpoint(f"app-win-changelog {number} 99"))


PLAIN, TIMED = "kafka-streams.key-value", "kafka-streams.timestamped-key-value"
UPGRADING = {
    "default": numbered(20, prefix=b"old"),
    "keyValueWithTimestamp": {key: bytes(8) + value for key, value in RECORDS.items()},
}
LACKED: dict[str, tuple[Callable[[Plan], dict[str, object]], tuple[str, ...], list[dict[str, dict[bytes, bytes]]]]] = {
    "an older family": (_without_older, (TIMED,), [UPGRADING]),
    "an owner's family": (
        lambda plan: {"databases": _changed(plan, 0, carried_families=())},
        (PLAIN, TIMED),
        [{"default": RECORDS, OFFSETS: offsets(5)}],
    ),
    "a store partition": (_of_the_first_partition, (PLAIN, TIMED), [{"default": RECORDS}] * 2),
}


@MODES
@pytest.mark.parametrize("what", LACKED)
@pytest.mark.usefixtures("unchecked")
def test_what_the_plan_lacks_of_an_application_is_missed(what: str, mode: Mode, tmp_path: Path) -> None:
    change, formats, families = LACKED[what]
    _stores(tmp_path, *families)
    _tampered(windowed_spec(tmp_path, *formats, run={"verify": mode}), change)


SEGMENT = 15 * MINUTE


def _segmented(folder: Path, mode: Mode) -> Spec:
    make_segments(folder / "app/0_0/win", windows(300, until=4 * SEGMENT), SEGMENT)
    (folder / "app/0_0/.checkpoint").write_text(checkpoint("app-win-changelog 0 99"))
    return windowed_spec(folder, **retentions(2 * SEGMENT, 20 * MINUTE), run={"verify": mode})


def _without_an_input(plan: Plan) -> dict[str, object]:
    number = next(number for number, each in enumerate(plan.databases) if each.is_kept and len(each.inputs) > 1)
    return {"databases": _changed(plan, number, inputs=plan.databases[number].inputs[:1])}


def _of_fewer_times(plan: Plan) -> dict[str, object]:
    times = plan.databases[-1].times
    assert times is not None
    return {"databases": _changed(plan, -1, times=times.model_copy(update={"end_ms": times.start_ms + 1}))}


OF_SEGMENTS: dict[str, Callable[[Plan], dict[str, object]]] = {
    "a segment": _without_last_segment,
    "an input": _without_an_input,
    "a time": _of_fewer_times,
    "what is not expired": lambda plan: {"databases": _changed(plan, 1, is_kept=False)},
}


@MODES
@pytest.mark.parametrize("what", OF_SEGMENTS)
@pytest.mark.usefixtures("unchecked")
def test_records_of_segments_that_the_plan_lacks_are_missed(what: str, mode: Mode, tmp_path: Path) -> None:
    _tampered(_segmented(tmp_path, mode), OF_SEGMENTS[what])


@MODES
def test_records_that_planning_overlooks_are_found_in_the_snapshot(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by what a verification and a plan have in common."""
    monkeypatch.setattr(planned, "pre_upgrade_families", lambda *_: ())
    _stores(tmp_path, {**UPGRADING, "default": {b"old": b"v"}})
    spec = windowed_spec(tmp_path, TIMED, run={"verify": mode})
    raises(VerificationError, r"column family 'default', key \"old\"", run, spec)


@MODES
def test_times_that_planning_overlooks_are_found(mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = new_segments

    def all_but_one(*args: object) -> list[NewSegment]:
        segments = whole(*args)  # type: ignore[arg-type]
        del segments[-2]
        return segments

    monkeypatch.setattr(planned, "new_segments", all_but_one)
    raises(VerificationError, r"records (of win|that the chunks read)", run, _segmented(tmp_path, mode))


# What is read


def test_a_verification_that_did_not_read_everything_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = verify_full.compare_tasks

    def all_but_one(*args: object) -> Iterator[CompareTask]:
        tasks = list(whole(*args))  # type: ignore[arg-type]
        assert len(tasks) > 3
        del tasks[2]
        return iter(tasks)

    monkeypatch.setattr(verify_full, "compare_tasks", all_but_one)
    spec = _spec(tmp_path, "full")
    caught = raises(MigrationError, r"the verification was not whole: .* leave a gap between", run, spec)
    assert not isinstance(caught, VerificationError)
    assert not (tmp_path / "new").exists()
