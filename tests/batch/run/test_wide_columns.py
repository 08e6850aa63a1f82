"""Wide-column records, which RocksDB's PutEntity writes, are never taken for values."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from formats import StateRecord
from migrate import ConversionError, DualReadStore, RefusedError, open_store, plan, run
from migrate.batch.context import Context
from migrate.batch.run import run_with
from migrate.errors import ExitCode, RejectedError
from tests.sorting import sorting
from tests.support import RAW, numbered, raises, raw_spec, read_delta, read_families, tree_state

TIMESTAMPED = "kafka-streams.timestamped-key-value"
PLAIN = numbered(300)
ENTITIES = {
    b"entity": [(b"city", b"Oslo"), (b"name", b"Kari")],
    b"entity-with-value": [(b"", b"value"), (b"city", b"Oslo")],
}
SAID = r"wide-column record \(RocksDB's PutEntity\)"
OSLO = b"\x01\x02\x04city\x04\x04name\x04OsloKari"


def same(record: StateRecord) -> StateRecord:
    return record


Function = Callable[[StateRecord], StateRecord]
EITHER = pytest.mark.parametrize("function", [None, same], ids=["program", "function"])


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Makes a store of the records with values and of those with columns."""

    def made(plain: dict[bytes, bytes], entities: dict[bytes, list[tuple[bytes, bytes]]] = ENTITIES) -> Path:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        database = Rdict(str(tmp_path / "old"), options)
        for key, value in plain.items():
            database[key] = value
        for key, columns in entities.items():
            names, values = zip(*columns, strict=True)
            database.put_entity(key, list(names), list(values))
        database.flush()
        database.close()
        (tmp_path / "old/rocksdict-config.json").unlink()
        return tmp_path / "old"

    return made


def test_plan_and_run_refuse_a_store_that_has_one(make: Callable[..., Path], tmp_path: Path) -> None:
    source = make(PLAIN)
    before = tree_state(source)
    found = plan(raw_spec(tmp_path, source))
    assert found.verdict.exit_code == ExitCode.REFUSED
    assert any("wide-column record" in check.detail for check in found.checks)
    with pytest.raises(RefusedError, match=SAID):
        run(raw_spec(tmp_path, source))
    assert not (tmp_path / "new").exists()
    assert tree_state(source) == before


@EITHER
def test_a_run_that_meets_one_later_fails_at_it(
    function: Function | None, make: Callable[..., Path], tmp_path: Path
) -> None:
    """In a large store no sample may have it."""
    source = make({**numbered(8000), b"last": b""}, {b"key-04711-more": [(b"city", b"Oslo")]})
    conversion = {} if function is None else {"function": function}
    with pytest.raises(RejectedError, match="key-04711-more.*" + SAID):
        run(raw_spec(tmp_path, source, conversion=conversion))
    assert not (tmp_path / "new").exists()


@EITHER
@pytest.mark.parametrize("verify", ["full", "digest"])
@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_those_that_may_be_rejected_are_left_out_whole_and_counted(
    policy: str, verify: str, function: Function | None, make: Callable[..., Path], tmp_path: Path
) -> None:
    of_run = {"on_reject": policy, "max_rejects": 2, "verify": verify}
    conversion = {} if function is None else {"function": function}
    spec = raw_spec(tmp_path, make(PLAIN), run=of_run, conversion=conversion)
    assert plan(spec).verdict.go
    report = run(spec)
    assert (report.state, report.totals.rejected) == ("published", 2)
    assert read_families(tmp_path / "new") == {"default": PLAIN}
    if report.dead_letters is not None:
        assert {row["key"]: row["value"] for row in read_delta(report.dead_letters)}[b"entity"] == OSLO
    assert (report.dead_letters is None) == (policy == "skip")


def test_no_function_gets_one_where_keys_are_sorted(make: Callable[..., Path], tmp_path: Path) -> None:
    seen = set()

    def backwards(record: StateRecord) -> StateRecord:
        seen.add(record.key)
        return replace(record, key=record.key[::-1])

    of_run = {"on_reject": "skip", "max_rejects": 2, "sort": True}
    spec = raw_spec(tmp_path, make(PLAIN), run=of_run, conversion={"function": backwards})
    assert run_with(sorting, Context(spec)).totals.rejected == 2
    assert seen == PLAIN.keys()
    assert read_families(tmp_path / "new") == {"default": {key[::-1]: value for key, value in PLAIN.items()}}


def test_one_with_a_single_column_without_a_name_is_a_value(make: Callable[..., Path], tmp_path: Path) -> None:
    run(raw_spec(tmp_path, make(PLAIN, {b"entity": [(b"", b"value")]})))
    assert read_families(tmp_path / "new") == {"default": {b"entity": b"value", **PLAIN}}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_that_is_read_by_itself_names_it(make: Callable[..., Path], *, read_only: bool) -> None:
    with open_store(make(PLAIN), format=RAW, read_only=read_only) as store:
        for key in ENTITIES:
            raises(RefusedError, SAID, store.get, key)
            with pytest.raises(RefusedError, match=SAID):
                store.multi_get([min(PLAIN), key])
        for reverse in (False, True):
            with pytest.raises(RefusedError, match=SAID):
                list(store.range(reverse=reverse))
        assert store.multi_get([*PLAIN, b"none"]) == [*PLAIN.values(), None]
        assert dict(store.range(min(PLAIN))) == PLAIN


@EITHER
@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_adapter_leaves_it_in_the_old_store(
    function: Function | None, make: Callable[..., Path], tmp_path: Path, *, elsewhere: bool
) -> None:
    source = make(PLAIN)
    path, old_path = (tmp_path / "new", source) if elsewhere else (source, None)
    with DualReadStore.open(
        path, old_path=old_path, source=RAW, target=TIMESTAMPED, convert=function, on_reject="quarantine"
    ) as store:
        for key in ENTITIES:
            raises(ConversionError, SAID, store.get, key)
        with pytest.raises(ConversionError, match=SAID):
            list(store.all())
        while store.converge():
            pass
        assert store.progress.rejected == len(ENTITIES)
        assert all(store.get(key) == b"\xff" * 8 + value for key, value in PLAIN.items())
        raises(ConversionError, SAID, store.get, b"entity")
    database = Rdict(str(source), Options(raw_mode=True))
    try:
        assert database.get_entity(b"entity") == ENTITIES[b"entity"]
    finally:
        database.close()


def test_the_adapter_stops_at_it_unless_told_otherwise(make: Callable[..., Path]) -> None:
    with (
        DualReadStore.open(make(PLAIN), source=RAW, target=TIMESTAMPED) as store,
        pytest.raises(ConversionError, match=SAID),
    ):
        while store.converge():
            pass
