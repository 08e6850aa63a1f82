"""Ranges of a verification: however the old keys are cut, together they find whatever differs."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.batch.chunk.compare_stores import CompareTask, compare_gaps, run_verify_task
from migrate.batch.context import Context
from migrate.batch.plan.cut import LEAST_BYTES
from migrate.batch.steps import comparisons as verify_subject
from migrate.engine.chunk_source import Inputs
from migrate.model.comparison import Verified, as_verified
from migrate.model.engine_choice import EngineChoice
from migrate.model.key_range import KeyRange
from migrate.model.plan import DatabasePlan, FamilyMapping
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.rocksdb.database import open_read_only
from tests.shared.builders import chunk, plan
from tests.support import RAW, make_store, raw_spec

PARTITION, FAMILY = "db", "default"


def test_ranges_are_as_many_as_there_are_slots_and_bytes() -> None:
    def ranges(size: int, slots: int, chunk_size: int = 1 << 40) -> int:
        plan = DatabasePlan(store_partition="db", database=".", mappings=(), carried_families=(), data_bytes=size)
        return verify_subject.range_bytes([plan], slots, chunk_size)

    assert ranges(512 << 20, slots=4) == 32 << 20
    assert ranges(512 << 20, slots=1) == 64 << 20
    assert ranges(512 << 20, slots=4, chunk_size=1 << 20) == 1 << 20
    assert ranges(512 << 20, slots=1 << 20) == LEAST_BYTES
    assert ranges(10 << 40, slots=100) == (10 << 40) // 4096


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_ranges_find_what_differs_wherever_they_are_cut(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is dropped, rejected or gets another key on the way."""
    base = tmp_path_factory.mktemp("ranges")
    keys = data.draw(st.sets(st.binary(min_size=1, max_size=2), max_size=12), "keys")
    source = make_store(base / "old", {key: b"v" + key for key in sorted(keys)})
    expected = {b"k" + key: b"v" + key for key in sorted(keys) if key[0] % 3 and key[-1] % 5}
    actual = dict(expected)
    for key in data.draw(st.sets(st.binary(max_size=3), max_size=2), "changed"):
        actual[key] = b"x"
    loses: bool = data.draw(st.booleans(), "lose one")
    if actual and loses:
        del actual[data.draw(st.sampled_from(sorted(actual)), "lost")]
    target = make_store(base / "new", dict(sorted(actual.items())))
    points = sorted(data.draw(st.sets(st.binary(min_size=1, max_size=2), max_size=4), "cut points"))
    found = _compare(source, target, [None, *points, None])
    assert sum(each.missing for each in found) == len(expected.keys() - actual.keys())
    assert sum(each.extra for each in found) == len(actual.keys() - expected.keys())
    both = expected.keys() & actual.keys()
    assert sum(each.differing for each in found) == sum(expected[key] != actual[key] for key in both)
    assert sum(each.records for each in found) == len(expected)


def _compare(source: Path, target: Path, edges: list[bytes | None]) -> list[Verified]:
    ref = ConversionRef(RAW, RAW, function="tests.shared.conversions:thin_out", keys_may_change=True)
    mapping = FamilyMapping(source=FAMILY, target=FAMILY)
    found = [
        run_verify_task(
            CompareTask(
                PARTITION, ".", Inputs((str(source),)), mapping, KeyRange(start=start, end=end), ref, str(target)
            )
        )
        for start, end in pairwise(edges)
    ]
    if len(found) == 1:  # which looks everywhere itself
        return found
    with open_read_only(target) as opened:
        ends = [each.ends for each in found if each.ends is not None]
        return [*found, *(as_verified(extra, count) for count, extra in compare_gaps(opened, PARTITION, FAMILY, ends))]


def test_two_old_records_that_become_one_on_either_side_of_a_cut_are_found(tmp_path: Path) -> None:
    """Each of them alone is as it should be."""
    target = make_store(tmp_path / "new", {b"k": b"v"})
    with open_read_only(target) as opened:
        ((count, found),) = compare_gaps(opened, PARTITION, FAMILY, [(b"k", b"k"), (b"k", b"k")])
    assert (count, found.kind, found.key, found.field) == (1, "differing", b"k", "order of keys")


@pytest.mark.parametrize(("is_of_tails", "engine"), [(False, "native"), (True, "portable")])
def test_what_tails_alone_have_made_no_engine_has_to_convert(
    is_of_tails: bool, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine of the run was chosen by what the source has."""
    make_store(tmp_path / "old", {b"a": b"1"})
    context = Context(raw_spec(tmp_path, tmp_path / "old", run={"engine": "native"}))
    context.engine = EngineChoice(setting="native", names=("native",))
    context.standing = context.standing.with_plan(plan(chunk(partition=PARTITION)))
    monkeypatch.setattr(Context, "snapshots_of", lambda *_: {".": tmp_path / "old"})
    mappings = (FamilyMapping(source=FAMILY, target=FAMILY),)
    database = DatabasePlan(
        store_partition=PARTITION,
        database=".",
        mappings=mappings,
        carried_families=(),
        data_bytes=1,
        is_of_tails=is_of_tails,
    )
    subject = verify_subject.Subject(context, (database,), range_bytes=1 << 20)
    subject.__dict__["folders"] = {PARTITION: tmp_path / "new"}
    (task,) = verify_subject.compare_tasks(subject, database, {})
    assert (task.engine, len(task.source.directories)) == (engine, int(not is_of_tails))
