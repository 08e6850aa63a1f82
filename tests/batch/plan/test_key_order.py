"""Whether a run sorts the new keys: what decides, in which order, and what a sample shows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from migrate import ChunkFailedError, RefusedError, Spec, run
from migrate.batch.context import Context
from migrate.batch.home import load_plan, store_plan
from migrate.batch.ledger.gates import Acceptance
from migrate.batch.plan.key_order import may_change_keys
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.run import run_with
from tests.sorting import sorting
from tests.support import KEY_VALUE, make_spec, make_store, numbered, raises, raw_spec, read_families

RECORDS = numbered(3000)
Function = Callable[[StateRecord], StateRecord | None]


def same(record: StateRecord) -> StateRecord:
    return record


def prefixed(record: StateRecord) -> StateRecord:
    return replace(record, key=b"a" + record.key)


def backwards(record: StateRecord) -> StateRecord:
    return replace(record, key=bytes(reversed(record.key)))


def as_number(record: StateRecord) -> StateRecord:
    return replace(record, key=int(record.key[4:]))


def collapsing(record: StateRecord) -> StateRecord:
    return replace(record, key=record.key[:-1])


def failing(record: StateRecord) -> StateRecord:
    if record.key.endswith(b"7"):
        raise ValueError("seven")
    return record


def dropping(record: StateRecord) -> StateRecord | None:
    return None


def one_astray(record: StateRecord) -> StateRecord:
    return replace(record, key=b"zzz") if record.key == b"key-00001666" else record


def _why(spec: Spec) -> str:
    """Why a run sorts, by the check that both a plan and a run make of it."""
    return Preflight(Context(spec).loaded(), "plan").why_sorted


def _raw(folder: Path, function: Function | None = None, **conversion: Any) -> Spec:  # noqa: ANN401
    given = {} if function is None else {"function": function}
    return raw_spec(folder, make_store(folder / "state", RECORDS), conversion=given | conversion)


@pytest.mark.parametrize("function", [None, same, prefixed, failing, dropping, collapsing, one_astray])
def test_keys_whose_sample_keeps_its_order_are_not_sorted(tmp_path: Path, function: Function | None) -> None:
    assert not _why(_raw(tmp_path, function))


def test_a_function_that_changes_the_order_of_sampled_keys(tmp_path: Path) -> None:
    """The sample is of the whole range of keys, and of each column family."""
    assert _why(_raw(tmp_path, backwards)).endswith(" in state, once converted")


def test_a_fault_of_the_last_keys_is_in_the_sample(tmp_path: Path) -> None:
    assert _why(
        _raw(tmp_path, lambda record: replace(record, key=b"9" if record.key > b"key-00002900" else record.key))
    )


def _serdes(source: str, target: str, **more: str) -> dict[str, Any]:
    return {"key": {"from": {"serde": source}, "to": {"serde": target, **more}}}


def test_serdes_that_keep_no_order_decide_without_a_sample(tmp_path: Path) -> None:
    store = make_store(tmp_path / "state", {number.to_bytes(8): b"" for number in range(3)})
    little = raw_spec(tmp_path, store, conversion=_serdes("int64", "int64", endian="little"))
    assert _why(little) == "[conversion.key]: keys of int64, written otherwise, need not keep their order"
    assert not _why(raw_spec(tmp_path, store, conversion=_serdes("int64", "int64")))
    text = raw_spec(tmp_path, store, conversion=_serdes("string", "int64") | {"function": same})
    assert _why(text) == "[conversion.key]: keys from string to int64 need not keep their order"


@pytest.mark.parametrize(("key", "is_sorted"), [(b'{ "b":0}', True), (b'{ "a":0}', False)])
def test_json_keys_that_a_function_has_written_again_are_sampled(tmp_path: Path, key: bytes, is_sorted: bool) -> None:
    """With its space a key comes before every one without."""
    store = make_store(tmp_path / "state", {b'{"a":1}': b"", key: b""})
    spec = raw_spec(tmp_path, store, conversion=_serdes("json", "json") | {"function": same})
    assert bool(_why(spec)) == is_sorted


def test_what_becomes_of_collisions_is_a_matter_of_sorting(tmp_path: Path) -> None:
    assert _why(_raw(tmp_path, collapsing, on_collision="newest")).startswith("[conversion] on_collision")
    assert not _why(_raw(tmp_path / "same", on_collision="newest"))  # no key changes


@pytest.mark.parametrize("asked", [True, False])
def test_the_spec_decides_before_anything_else(tmp_path: Path, asked: bool) -> None:
    spec = raw_spec(
        tmp_path, make_store(tmp_path / "state", RECORDS), run={"sort": asked}, conversion={"function": backwards}
    )
    assert _why(spec) == ("[run] sort = true" if asked else "")


def test_the_plan_of_a_migration_decides_before_its_function(tmp_path: Path) -> None:
    """The function has a fault that no sample shows: the run fails, and goes on sorting once it is told to."""
    spec = _raw(tmp_path, one_astray)
    error = raises(ChunkFailedError, "changes the order of keys", run, spec)
    assert (error.exit_code, error.hint.startswith("[run] sort = true lets Spark sort")) == (3, True)
    plan = load_plan(spec.home)
    assert plan is not None
    assert not plan.is_sorted
    assert not _why(spec)
    changes = {"sort": True, "verify": "off", "chunk_size": 20_000}
    sorts = spec.model_copy(update={"run": spec.run.model_copy(update=changes)})
    run_with(sorting, Context(sorts, acceptance=Acceptance(unverified=True)))
    again = load_plan(spec.home)
    assert again is not None
    assert (again.is_sorted, again.revision) == (True, plan.revision + 1)
    assert len(again.chunks) > 2
    assert spec.target_path is not None
    assert read_families(spec.target_path)["default"] == {
        b"zzz" if key == b"key-00001666" else key: value for key, value in RECORDS.items()
    }


@pytest.mark.parametrize("stored", [True, False])
def test_a_plan_is_made_again_for_the_other_order(tmp_path: Path, stored: bool) -> None:
    """Its chunks are ranges of other keys. A sorted one is not cut again for another size: its bounds are sampled."""
    spec = _raw(tmp_path)
    run(spec)
    plan = load_plan(spec.home)
    assert plan is not None
    store_plan(spec.home, plan.model_copy(update={"is_sorted": stored, "revision": 2}))
    for asked, is_cut in ((None, False), (stored, False), (not stored, True)):
        for size, is_resized in ((spec.run.chunk_size, False), (1 << 20, not stored)):
            changed = spec.model_copy(update={"run": spec.run.model_copy(update={"sort": asked, "chunk_size": size})})
            preflight = Preflight(Context(changed).loaded(), "plan")
            assert preflight.is_cut_otherwise == (is_cut or is_resized)
            assert preflight.is_sorted == (stored if asked is None else asked)


def test_nothing_is_written_where_spark_is_needed_and_left_out(tmp_path: Path) -> None:
    spec = _raw(tmp_path, backwards)
    error = raises(RefusedError, 'the run sorts the new keys, which Spark does: "key-', run, spec)
    assert "leave --no-spark and --jobs out: stateferry run SPEC" in error.hint
    assert 'master="local[4]"' in error.hint
    assert not list(spec.home.glob("*.json"))
    assert not (spec.home / "snapshot").exists()


def _kafka(**conversion: Any) -> Spec:  # noqa: ANN401
    return make_spec(
        Path(),
        Path("state"),
        source_format=KEY_VALUE,
        target_format=KEY_VALUE,
        conversion=conversion,
        source={"store": "s"},
    )


@pytest.mark.parametrize(
    ("conversion", "may"),
    [
        ({}, False),
        ({"function": same}, False),
        ({"allow": ["key-change"]}, False),
        ({"function": same, "allow": ["key-change"]}, True),
        ({"function": same, **_serdes("json", "json")}, True),
        (_serdes("json", "json"), False),
        (_serdes("int32", "int64"), True),
    ],
)
def test_what_may_change_keys(conversion: dict[str, Any], may: bool) -> None:
    assert may_change_keys(Context(_kafka(**conversion)).conversion) is may
