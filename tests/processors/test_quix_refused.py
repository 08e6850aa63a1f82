"""What the adapter for Quix Streams does not accept, and what it says then."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from quixstreams.state import State
from quixstreams.state.memory import MemoryStore
from quixstreams.state.rocksdb import RocksDBOptions

from migrate import MissingPackageError, RefusedError, SpecError
from migrate.processors import quix
from migrate.processors.quix import DualState, Renamed, RenamedBy
from tests.processors.quix_host import STREAM, Context
from tests.support import raises

NAMES = {"totals": Renamed("total", str), "bytes": Renamed("old bytes", bytes, as_bytes=True)}


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = Context(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    "names, options, message",
    [
        ({}, {}, "the names .* have 0 old ones"),
        ({"a": Renamed("old", str), "b": Renamed("old", str)}, {}, "the names .* have 1 old ones"),
        ({"a": Renamed("b", str), "b": Renamed("c", str)}, {}, "'b' would be an old name and a new one"),
        ({"a": Renamed("a", str)}, {}, "'a' would be an old name and a new one"),
        (NAMES, {"share": 0}, "share=0, .* leave nothing to move in"),
        (NAMES, {"share": 1.5}, "leave nothing"),
        (NAMES, {"per_checkpoint": 0}, "leave nothing"),
        (NAMES, {"interval": 0}, "leave nothing"),
        (NAMES, {"on_reject": "skip"}, "on_reject is 'skip'"),
    ],
)
def test_names_and_options_that_make_no_sense(
    names: dict[str, Renamed], options: dict[str, Any], message: str, context: Context
) -> None:
    error = raises(SpecError, message, DualState, context.sdf, names, **options)
    assert error.hint


@pytest.mark.parametrize(
    "use, message, hint",
    [
        (lambda state: state.get("total"), "the state 'total', which is an old name", "let it use 'totals' alone"),
        (lambda state: state.set("total", 1), "which is an old name", "let it use 'totals' alone"),
        (lambda state: state.delete("total"), "which is an old name", "let it use 'totals' alone"),
        (lambda state: state.exists("total"), "which is an old name", "let it use 'totals' alone"),
        (lambda state: state.get_bytes("totals"), "uses the state 'totals' as bytes", "as_bytes=True"),
        (lambda state: state.set_bytes("totals", b""), "uses the state 'totals' as bytes", "as_bytes=True"),
        (lambda state: state.get("bytes"), "uses the state 'bytes' as values", "as_bytes=False"),
        (lambda state: state.set("bytes", 1), "uses the state 'bytes' as values", "as_bytes=False"),
    ],
)
def test_a_function_that_is_not_the_one_to_stay(
    use: Callable[[State[str, Any]], Any], message: str, hint: str, context: Context
) -> None:
    dual = DualState(context.sdf, NAMES)
    error = raises(SpecError, message, context.call, dual(lambda _, state: use(state)), b"a")
    assert hint in error.hint


@pytest.mark.parametrize(
    "old_name, new_name, message",
    [
        (lambda new: f"old {new}", lambda old: None, "the rules do not agree"),
        (lambda new: "old", lambda old: "new", "the rules do not agree"),
        (lambda name: name[::-1], lambda name: name[::-1], "'latot' would be an old name and a new one"),
    ],
)
@pytest.mark.parametrize("by", ["get", "converge"])
def test_rules_that_do_not_undo_each_other(
    old_name: Callable[[str], str | None],
    new_name: Callable[[str], str | None],
    message: str,
    by: str,
    context: Context,
) -> None:
    context.state(b"a").set("latot" if by == "converge" else "other", 1)
    context.commit()
    dual = DualState(context.sdf, RenamedBy(old_name, new_name, str), share=1, interval=1e-9)
    if by == "get":
        raises(SpecError, message, context.call, dual(lambda _, state: state.get("total")), b"a")
    elif new_name("latot") is not None:
        raises(SpecError, message, context.turn)


def test_a_function_without_a_state(context: Context) -> None:
    dual = DualState(context.sdf, NAMES)
    error = raises(SpecError, "the function got int where its state should be", dual(lambda value: value), 1)
    assert "stateful=True" in error.hint
    twice = dual(dual(lambda _, state: state.get("totals")))
    raises(SpecError, "got _BothStates where its state should be", context.call, twice, b"a")


def test_a_function_of_another_dataframe(context: Context, tmp_path: Path) -> None:
    """As after group_by or concat: there the state is of a stream of its own."""
    context.manager.register_store("grouped")
    context.manager.on_partition_assign("grouped", 0, {})
    dual = DualState(context.sdf, NAMES)
    transaction = context.processing.checkpoint.get_store_transaction("grouped", 0)
    read = dual(lambda _, state: state.get("totals"))
    error = raises(SpecError, f"a state that is not of {STREAM}", read, None, transaction.as_state(b"a"))
    assert "after group_by or concat" in error.hint


def test_a_state_in_memory(tmp_path: Path) -> None:
    context = Context(tmp_path, partitions=0)
    context.manager.stores[STREAM].clear()
    context.manager.register_store(STREAM, store_type=MemoryStore)
    context.manager.on_partition_assign(STREAM, 0, {})
    DualState(context.sdf, NAMES, interval=1e-9)
    raises(RefusedError, "kept in MemoryStorePartition, not in RocksDB", context.turn)


def test_names_that_are_not_json(tmp_path: Path) -> None:
    options = RocksDBOptions(dumps=repr_bytes, loads=lambda data: None)
    context = Context(tmp_path, options=options)
    dual = DualState(context.sdf, NAMES)
    for use in (lambda: context.call(dual(lambda _, state: state.get("totals")), b"a"),):
        error = raises(RefusedError, "the names of its states in a form of its own", use)
        assert "let the function itself try the old name" in error.hint
    context.close()


def repr_bytes(value: object) -> bytes:
    return repr(value).encode()


def test_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("migrate.processors.cell.version", missing)
    error = raises(MissingPackageError, "the package quixstreams is not installed", importlib.reload, quix)
    assert error.hint == "pip install 'stateferry[quix]'"


@pytest.mark.parametrize("version", ["3.26.0", "3.29.0", "4.0.0", "3.2.7"])
def test_a_version_that_is_not_tested(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrate.processors.cell.version", lambda package: version)
    error = raises(
        RefusedError, f"quixstreams {version} is not a tested version: 3.27, 3.28 are", importlib.reload, quix
    )
    assert "stateferry[quix]" in error.hint
    assert inspect.getmodule(DualState) is quix
