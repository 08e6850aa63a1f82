"""Dual reading in Quix Streams, on its own partitions and checkpoints: what a function sees, and what is moved."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from quixstreams.state import State
from quixstreams.state.rocksdb import RocksDBOptions

from migrate import ConversionError, StoreCorruptedError, StoreMetrics
from migrate.processors.quix import Renamed, RenamedBy
from tests.processors.quix_host import NAMES, STREAM, Context, adapter, converge, deletes, put, stored
from tests.support import raises


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = Context(tmp_path, partitions=2)
    yield made
    made.close()


def count(_: object, state: State[str, Any]) -> Any:  # noqa: ANN401 - as the state
    total = state.get("totals", {"sum": 0})
    state.set("totals", {"sum": total["sum"] + 1})
    return total["sum"]


def test_a_function_counts_on_where_the_old_code_ended(context: Context) -> None:
    put(context, {b"a": 5})
    dual = adapter(context)
    counting = dual(count)
    assert [context.call(counting, b"a") for _ in range(3)] == [5, 6, 7]
    assert context.call(counting, b"b") == 0
    assert (dual.progress.moved_by_write, dual.progress.superseded) == (1, 0)
    context.commit()
    assert stored(context) == {b'a|"totals"': b'{"sum":8}', b'b|"totals"': b'{"sum":1}'}


def test_a_function_may_ask_for_the_metadata_of_its_message(context: Context) -> None:
    put(context, {b"a": 5})

    def with_metadata(value: int, key: bytes, timestamp: int, headers: Any, state: State[str, Any]) -> Any:  # noqa: ANN401
        return value, key, timestamp, headers, state.get("totals")

    asked = adapter(context)(with_metadata)
    assert asked.__name__ == "with_metadata"
    assert asked(1, b"a", 2, None, context.state(b"a")) == (1, b"a", 2, None, {"sum": 5})


def test_other_states_are_left_alone(context: Context) -> None:
    put(context, {b"a": 1}, "other")
    put(context, {b"a": 1}, ["total"])
    put(context, {b"a": 1}, b"total")
    before = stored(context)
    asked = adapter(context)(lambda _, state: (state.get("other"), state.get(["total"]), state.get(b"total")))
    assert context.call(asked, b"a") == (1, 1, 1)
    converge(context)
    assert context.call(asked, b"a") == (1, 1, 1)
    assert stored(context) == before


KEYS = (b"a", b"a|", b'a|"total"', b'|"total"', b"", b"\x00|\xff\n", '"é"'.encode(), b'a"', b"a\\", b'"totals"|"')


@pytest.mark.parametrize("old", ["total", 'to"tal', "to|tal", "é\n", '|"', "\\", '\\"', ""])
def test_keys_and_names_may_hold_the_separator(old: str, context: Context) -> None:
    put(context, dict(zip(KEYS, range(10), strict=True)), old)
    put(context, dict.fromkeys(KEYS, 1), "it")
    names = {"totals": Renamed(old, lambda number: {"sum": number})}
    dual = adapter(context, names)
    converge(context)
    assert dual.is_converged
    for number, key in enumerate(KEYS):
        plain = context.state(key)
        assert (plain.get("totals"), plain.get("it"), plain.get(old)) == ({"sum": number}, 1, None)
    assert len(stored(context)) == 2 * len(KEYS)


def test_names_made_at_run_time_follow_rules(context: Context) -> None:
    rules = RenamedBy(
        old_name=lambda new: new.replace("sum/", "total-") if new.startswith("sum/") else None,
        new_name=lambda old: old.replace("total-", "sum/") if old.startswith("total-") else None,
        convert=lambda old: {"sum": old},
    )
    put(context, {b"a": 1, b"b": 2}, "total-red")
    put(context, {b"a": 3}, "total-blue")
    put(context, {b"a": 4}, "other")
    dual = adapter(context, rules)
    read = dual(lambda _, state: [state.get(f"sum/{colour}") for colour in ("red", "blue", "green")])
    assert context.call(read, b"a") == [{"sum": 1}, {"sum": 3}, None]
    converge(context)
    assert dual.is_converged
    assert sorted(stored(context)) == [b'a|"other"', b'a|"sum/blue"', b'a|"sum/red"', b'b|"sum/red"']
    assert context.call(read, b"b") == [{"sum": 2}, None, None]


def test_bytes_are_converted_as_bytes(context: Context) -> None:
    context.state(b"a").set_bytes("total", b"\x00\x05")
    context.state(b"b").set_bytes("total", b"")
    context.commit()
    dual = adapter(context, {"totals": Renamed("total", lambda old: b"v2" + old, as_bytes=True)})
    read = dual(lambda _, state: state.get_bytes("totals", b"none"))
    assert [context.call(read, key) for key in (b"a", b"b", b"c")] == [b"v2\x00\x05", b"v2", b"none"]
    context.call(dual(lambda _, state: state.set_bytes("totals", b"v2!")), b"c")
    converge(context)
    assert stored(context) == {b'a|"totals"': b"v2\x00\x05", b'b|"totals"': b"v2", b'c|"totals"': b"v2!"}
    assert context.call(read, b"a") == b"v2\x00\x05"


def test_what_has_converged_costs_no_work_and_forgets_no_delete(context: Context) -> None:
    """An old copy may be in the changelog alone, where its own commit failed: each delete is one of both names."""
    put(context, {b"a": 5})
    dual = adapter(context)
    converge(context)
    assert dual.is_converged

    def look(_: object, state: State[str, Any]) -> None:
        for name in ("get", "set", "get_bytes", "set_bytes", "exists"):
            assert getattr(type(state), name).__module__.startswith("quixstreams.")
        state.delete("totals")

    context.call(dual(look), b"a")
    assert deletes(context) == {b'a|"total"', b'a|"totals"'}
    context.commit()
    assert stored(context) == {}


def test_a_delete_is_one_of_both_names_where_neither_is_on_the_disk(context: Context) -> None:
    dual = adapter(context)
    context.call(dual(lambda _, state: state.delete("totals")), b"a")
    assert deletes(context) == {b'a|"total"', b'a|"totals"'}


def test_a_key_that_is_new_costs_one_record(context: Context) -> None:
    dual = adapter(context)
    context.call(dual(count), b"a")
    assert deletes(context) == set()


def test_two_partitions_converge_on_their_own_and_are_forgotten_when_they_go(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "migrate")
    put(context, {b"a": 1})
    put(context, {b"b": 2}, number=1)
    dual = adapter(context)
    assert [dual.is_converged] == [False]
    converge(context, 1)
    assert [dual.is_converged] == [False]  # what was moved is committed, but no pass has seen it
    converge(context, 3)
    assert dual.is_converged
    assert dual.progress.moved_by_converge == 2
    assert dual.progress.old_keys_left == 0
    assert [line for line in caplog.messages if "has converged" in line] == [
        "orders[0] has converged: no old value is left in it",
        "orders[1] has converged: no old value is left in it",
        "the state of orders: all that is assigned to this process has converged. Once each process of the group says "
        "so, stop them all, take the adapter out, and start them all",
    ]
    context.manager.on_partition_revoke(STREAM, 0)
    assert dual.is_converged  # the other one is still here
    context.assign()
    assert [dual.is_converged] == [False]
    put(context, {b"c": 3})  # as a restore may
    assert context.call(dual(count), b"c") == 3
    converge(context)
    assert dual.is_converged
    context.manager.close()
    assert [dual.is_converged] == [False]  # nothing is assigned


def test_a_slice_leaves_no_iterator_behind(context: Context) -> None:
    """It would keep RocksDB's lock, and the next owner of the partition could not open it."""
    put(context, dict.fromkeys((b"a", b"b", b"c"), 1))
    dual = adapter(context, per_checkpoint=1)
    context.turn()
    context.commit()
    context.manager.on_partition_revoke(STREAM, 0)
    context.assign()
    assert dual.progress.moved_by_converge == 1


def test_a_pass_goes_on_where_the_last_slice_ended(context: Context) -> None:
    """And at most so many values are moved between two commits."""
    put(context, {b"%d" % number: number for number in range(10)})
    dual = adapter(context, per_checkpoint=3)
    moved = []
    while not dual.is_converged:
        for _ in range(3):
            context.turn()
        moved.append(dual.progress.moved_by_converge)
        context.commit()
    assert moved == [3, 6, 9, 10, 10]
    assert set(stored(context)) == {b'%d|"totals"' % number for number in range(10)}


def test_what_was_moved_is_not_sought_again_before_it_is_committed(context: Context) -> None:
    put(context, {b"a": 1})
    dual = adapter(context)
    context.turn()
    context.turn()
    assert not dual.is_converged
    assert dual._passes.unfinished == []
    assert stored(context) == {b'a|"total"': b"1"}
    context.commit()
    context.turn()
    assert dual.is_converged


def test_a_commit_that_fails_takes_nothing_away(context: Context) -> None:
    put(context, {b"a": 1, b"b": 2})
    dual = adapter(context)
    context.turn()
    context.processing.init_checkpoint()  # type: ignore[no-untyped-call] # as after a sink that was not ready
    assert stored(context) == {b'a|"total"': b"1", b'b|"total"': b"2"}
    converge(context)
    assert dual.is_converged
    assert stored(context) == {b'a|"totals"': b'{"sum":1}', b'b|"totals"': b'{"sum":2}'}


def test_a_slow_conversion_ends_its_slice(context: Context) -> None:
    put(context, {b"%d" % number: number for number in range(5)})
    clock = [0.0]

    def slow(old: int) -> int:
        clock[0] += 10
        return old

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", lambda: clock[0])
        dual = adapter(context, {"totals": Renamed("total", slow)}, share=0.1, interval=0.1)
        clock[0] += 1
        context.turn()
        assert dual.progress.moved_by_converge == 1
        context.turn()  # at once: it is not due
        assert dual.progress.moved_by_converge == 1
        clock[0] += 1
        context.turn()
        assert dual.progress.moved_by_converge == 2


@pytest.mark.parametrize("by", ["set", "get", "converge"])
def test_of_two_copies_the_new_one_wins_and_that_is_said(
    by: str, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    put(context, {b"a": 1})
    put(context, {b"a": {"sum": 7}}, "totals")
    dual = adapter(context)
    if by == "set":
        assert context.call(dual(count), b"a") == 7
    elif by == "get":
        assert context.call(dual(lambda _, state: state.get("totals")), b"a") == {"sum": 7}
    converge(context)
    assert "a new and an old value" in caplog.text
    assert "a function that is not wrapped" in caplog.text
    assert dual.progress.superseded == 1
    assert stored(context) == {b'a|"totals"': b'{"sum":8}' if by == "set" else b'{"sum":7}'}


def test_plain_new_code_that_comes_too_early_begins_anew(context: Context) -> None:
    """Nothing warns then. The old value is still there, and the adapter would still find it."""
    put(context, {b"a": 5})
    assert context.call(count, b"a") == 0
    context.commit()
    assert stored(context) == {b'a|"total"': b"5", b'a|"totals"': b'{"sum":1}'}


def test_rejects_rest_until_they_are_written(context: Context) -> None:
    put(context, {b"a": "one", b"b": 2})
    names = {"totals": Renamed("total", lambda old: {"sum": int(old)})}
    dual = adapter(context, names, on_reject="quarantine")
    converge(context, 5)
    assert dual._passes.unfinished == []
    assert not dual.is_converged
    ((key, reason),) = dual.rejects()
    assert (key, "invalid literal" in reason) == (b'a|"total"', True)
    read = dual(lambda _, state: state.get("totals"))
    assert raises(ConversionError, "invalid literal", context.call, read, b"a").key == b'a|"total"'
    assert dual.progress.rejected == 1
    context.call(dual(lambda _, state: state.set("totals", {"sum": 1})), b"a")
    converge(context)
    assert dual.rejects() == []
    assert dual.is_converged


@pytest.mark.parametrize(
    "write, convert, reason",
    [
        (lambda state: state.set("total", "one"), int, "ValueError: invalid literal"),
        (
            lambda state: state.set_bytes("total", b"\xff{"),
            int,
            "it cannot be read as JSON, and convert was not",
        ),
        (lambda state: state.set("total", 1), lambda old: {1, 2}, "StateSerializationError: Failed to serialize"),
        (lambda state: state.set("total", 1), lambda old: None, "give may_drop=True"),
    ],
    ids=["fails", "not JSON", "gives what is not JSON", "drops"],
)
@pytest.mark.parametrize("by", ["get", "converge"])
def test_a_value_that_cannot_be_converted_is_named_and_stays(
    write: Callable[[Any], None], convert: Callable[[Any], Any], reason: str, by: str, context: Context
) -> None:
    write(context.state(b"a"))
    context.commit()
    before = stored(context)
    dual = adapter(context, {"totals": Renamed("total", convert)})
    read = dual(lambda _, state: state.get("totals"))
    error = raises(ConversionError, reason, *((context.call, read, b"a") if by == "get" else (context.turn,)))
    assert error.key == b'a|"total"'
    context.commit()  # which the error does not spoil
    assert stored(context) == before


def test_bytes_that_become_no_bytes_are_rejects(context: Context) -> None:
    put(context, {b"a": 1})
    adapter(context, {"totals": Renamed("total", lambda old: "text", as_bytes=True)})
    raises(ConversionError, "it gives str, not bytes", context.turn)


def test_a_block_that_cannot_be_read_is_not_the_end(context: Context) -> None:
    put(context, {b"%06d" % number: number for number in range(20_000)})
    partition = context.manager.get_store(STREAM).partitions[0]
    partition._db.flush()  # type: ignore[attr-defined]
    context.manager.close()
    (table,) = context.folder.glob("group/default/orders/0/*.sst")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 0xFF
    table.write_bytes(content)
    context.assign()
    dual = adapter(context)
    raises(StoreCorruptedError, "cannot be read to its end: Corruption", converge, context, 1000)
    assert not dual.is_converged


def test_metrics_take_it_beside_stores(context: Context) -> None:
    put(context, {b"a": 1})
    registry = CollectorRegistry()
    dual = adapter(context)
    registry.register(StoreMetrics({"orders": dual}))
    converge(context)
    labels = {"store": "orders"}
    assert registry.get_sample_value("stateferry_store_converged", labels) == 1
    assert registry.get_sample_value("stateferry_store_moved_total", {**labels, "by": "converge"}) == 1


def test_several_functions_share_one_adapter(context: Context) -> None:
    put(context, {b"a": 1, b"b": 1})
    put(context, {b"a": 5}, "last")
    dual = adapter(context, {**NAMES, "latest": Renamed("last", str)})
    counting, reading = dual(count), dual(lambda _, state: state.get("latest"))
    assert (context.call(counting, b"a"), context.call(reading, b"a"), context.call(counting, b"a")) == (1, "5", 2)
    converge(context)
    assert stored(context) == {b'a|"latest"': b'"5"', b'a|"totals"': b'{"sum":3}', b'b|"totals"': b'{"sum":1}'}


def test_two_adapters_over_one_store_move_each_their_own(context: Context) -> None:
    put(context, {b"a": 1})
    put(context, {b"a": 5}, "last")
    duals = [adapter(context), adapter(context, {"latest": Renamed("last", str)})]
    converge(context)
    assert [dual.is_converged for dual in duals] == [True, True]
    assert stored(context) == {b'a|"latest"': b'"5"', b'a|"totals"': b'{"sum":1}'}


def test_a_transaction_of_a_lost_assignment_is_left_alone(context: Context) -> None:
    """Quix keeps it in its checkpoint until the next one."""
    put(context, {b"a": 1})
    context.state(b"a").get("total")
    dual = adapter(context)
    context.manager.on_partition_revoke(STREAM, 0)
    context.assign()
    context.turn()
    assert dual.progress.moved_by_converge == 0
    converge(context)
    assert dual.is_converged


def test_values_of_another_serializer_are_the_function_s(tmp_path: Path) -> None:
    """Names are JSON all the same."""
    options = RocksDBOptions(dumps=lambda value: b'"' + value.encode() + b'"', loads=lambda data: data[1:-1].decode())
    context = Context(tmp_path, options=options)
    put(context, {b"a": "x"})
    dual = adapter(context, {"totals": Renamed("total", str.upper)})
    converge(context)
    assert dual.is_converged
    assert stored(context) == {b'a|"totals"': b'"X"'}
    context.close()


def test_keys_that_only_look_like_old_ones_are_left_alone(context: Context) -> None:
    """A name of bytes may be any bytes, and the message key may be empty: then no separator stands before the name."""
    put(context, {b"": 1}, b'|"total"')
    put(context, {b"": 2}, b'"tot\\u0061l"')
    put(context, {b"a": 3}, b'"tot\\u0061l"')
    before = stored(context)
    dual = adapter(context)
    converge(context)
    assert dual.is_converged
    assert stored(context) == before


@pytest.mark.parametrize("looks_again", [True, False])
def test_functions_that_take_turns_in_one_message_see_each_other_s_writes(context: Context, looks_again: bool) -> None:
    """As one that is a generator, with `expand=True`, and one behind it."""
    put(context, {b"a": 5})
    dual = adapter(context)
    seen = []

    def outer(_: object, state: State[str, Any]) -> None:
        seen.append(state.get("totals"))
        context.call(dual(lambda _, inner: inner.set("totals", {"sum": 9})), b"a")
        if looks_again:
            seen.append(state.get("totals"))
        state.set("totals", {"sum": 10})

    context.call(dual(outer), b"a")
    assert seen == ([{"sum": 5}, {"sum": 9}] if looks_again else [{"sum": 5}])
    assert (dual.progress.moved_by_write, dual.progress.superseded) == (1, 0)
    context.commit()
    assert stored(context) == {b'a|"totals"': b'{"sum":10}'}


def test_an_old_copy_that_is_deleted_but_not_committed_is_gone(context: Context) -> None:
    put(context, {b"a": 5})
    dual = adapter(context)
    setting = dual(lambda _, state: state.set("totals", {"sum": 1}))
    for _ in range(3):
        context.call(setting, b"a")
    assert (dual.progress.moved_by_write, dual.progress.superseded) == (1, 0)
