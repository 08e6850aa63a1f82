"""The handles inside PySpark's transformWithState: what a key costs, and what no history of the contract shows."""

import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from migrate import ConversionError, RefusedError, SpecError
from migrate.processors.spark import DualList, DualMap, DualValue
from tests.processors.spark_host import Acting
from tests.support import raises

VALUE: dict[str, Any] = {"new": ("totals", "n long, sum double"), "old": ("count", "n int")}
LIST: dict[str, Any] = {"new": ("seen2", "x string, n int"), "old": ("seen", "x string")}
MAP: dict[str, Any] = {"new": ("last2", "k string", "n long, s string"), "old": ("last", "k string", "n int")}


def with_zero(row: tuple[int]) -> tuple[int, float]:
    return row[0], 0.0


def with_length(row: tuple[str]) -> tuple[str, int] | None:
    if row[0] == "?":
        raise ValueError("unknown")
    return (row[0], len(row[0])) if row[0] else None


class Calls:
    """A processor in a TwsTester, and the names of the calls of its variables: each is one message in a query."""

    def __init__(self, declare: Callable[[StatefulProcessorHandle], Any]) -> None:
        self.made: list[str] = []

        def counting(handle: StatefulProcessorHandle) -> Any:  # noqa: ANN401 - one of three
            for kind in ("getValueState", "getListState", "getMapState"):
                setattr(handle, kind, self._counting(getattr(handle, kind)))
            return declare(handle)

        self.processor = Acting(counting)
        self.tester = TwsTester(self.processor)

    def _counting(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(name: str, *more: object) -> Any:  # noqa: ANN401 - one of three
            state = make(name, *more)
            self._count(name, state)
            return state

        return made

    def _count(self, name: str, state: object) -> None:
        for method in ("get", "exists", "update", "clear", "put", "appendValue", "appendList", "getValue"):
            call = getattr(state, method, None)
            if call is not None:

                def counted(*arguments: object, call: Any = call, method: str = method) -> Any:  # noqa: ANN401
                    self.made.append(f"{name}.{method}")
                    return call(*arguments)

                setattr(state, method, counted)

    def do(self, key: str, act: Callable[[Any], object]) -> Any:  # noqa: ANN401 - what it answers
        self.processor.act = act
        self.made.clear()
        self.tester.test(key, [Row(x=1)])
        return self.processor.answer


def adding(dual: DualValue) -> None:
    n, total = dual.get() or (0, 0.0)
    dual.update((n + 1, total + 0.5))


def totals(**options: Any) -> Calls:  # noqa: ANN401 - those of a handle
    return Calls(lambda handle: DualValue(handle, **{**VALUE, "convert": with_zero, **options}))


def test_a_key_costs_what_a_plain_handle_costs_unless_it_is_old() -> None:
    calls = totals()
    calls.tester.updateValueState("totals", "new", (4, 1.0))
    calls.tester.updateValueState("count", "old", (4,))
    calls.do("new", adding)
    assert calls.made == ["totals.get", "totals.update"]
    calls.do("old", adding)
    assert calls.made == ["totals.get", "count.get", "totals.get", "totals.update", "count.clear"]
    calls.do("none", adding)
    assert calls.made == ["totals.get", "count.get", "totals.update"]
    assert calls.tester.peekValueState("totals", "old") == (5, 0.5)
    assert calls.tester.peekValueState("count", "old") is None


def test_what_is_known_of_one_key_is_not_taken_for_another_one() -> None:
    calls = totals()
    calls.tester.updateValueState("totals", "new", (4, 1.0))
    calls.tester.updateValueState("count", "old", (4,))
    calls.do("new", lambda dual: dual.get())
    calls.do("old", lambda dual: dual.update((9, 0.0)))
    assert calls.tester.peekValueState("count", "old") is None


def test_an_old_copy_does_not_show_again_behind_a_value_that_expires() -> None:
    calls = totals(new=(*VALUE["new"], 1000))
    calls.tester.updateValueState("totals", "a", (4, 1.0))
    calls.tester.updateValueState("count", "a", (1,))  # by old code that ran in between
    calls.do("a", adding)
    calls.tester.deleteState("totals", "a")  # it expires
    assert calls.do("a", lambda dual: (dual.get(), dual.exists())) == (None, False)


def test_a_list_moves_whole_before_it_grows() -> None:
    calls = Calls(lambda handle: DualList(handle, **LIST, convert=with_length, may_drop=True))
    calls.tester.updateListState("seen", "a", [("x",), ("",), ("yy",), ("",)])
    calls.tester.updateListState("seen", "b", [("x",)])
    calls.tester.updateListState("seen", "c", [("",)])
    calls.do("a", lambda dual: dual.appendValue(("new", 0)))
    assert calls.tester.peekListState("seen2", "a") == [("x", 1), ("yy", 2), ("new", 0)]
    calls.do("b", lambda dual: dual.appendList([("new", 0), ("new", 1)]))
    assert calls.tester.peekListState("seen2", "b") == [("x", 1), ("new", 0), ("new", 1)]
    assert calls.do("c", lambda dual: (dual.exists(), dual.converge(), dual.progress)) == (
        False,
        True,
        calls.processor.dual.progress,
    )
    assert (calls.processor.dual.progress.dropped, calls.processor.dual.progress.moved_by_converge) == (3, 3)
    assert [calls.tester.peekListState("seen", key) for key in "abc"] == [[], [], []]


def test_a_list_that_cannot_be_converted_does_not_grow_before_it() -> None:
    calls = Calls(lambda handle: DualList(handle, **LIST, convert=with_length, on_reject="quarantine"))
    calls.tester.updateListState("seen", "a", [("x",), ("?",)])
    error = raises(ConversionError, "unknown", calls.do, "a", lambda dual: dual.appendValue(("new", 0)))
    assert error.key == b"a seen"
    assert calls.tester.peekListState("seen2", "a") == []
    assert calls.processor.dual.rejects() == [(b"a seen", "convert raised ValueError: unknown")]
    calls.do("a", lambda dual: dual.put([("given", 1)]))
    assert calls.processor.dual.rejects() == calls.tester.peekListState("seen", "a") == []


def test_an_element_that_is_dropped_has_to_be_meant() -> None:
    calls = Calls(lambda handle: DualList(handle, **LIST, convert=with_length))
    calls.tester.updateListState("seen", "a", [("x",), ("",)])
    raises(ConversionError, "may_drop=True", calls.do, "a", lambda dual: list(dual.get()))


def map_of(entries: dict[tuple[str], tuple[int]], **options: Any) -> Calls:  # noqa: ANN401 - those of a handle
    calls = Calls(lambda handle: DualMap(handle, **MAP, convert=lambda row: (row[0], "old"), **options))
    calls.tester.updateMapState("last", "g", entries)
    return calls


def test_a_map_shows_each_key_once_while_it_is_updated() -> None:
    calls = map_of({("a",): (1,), ("b",): (2,), ("c",): (3,)})
    calls.tester.updateMapState("last2", "g", {("b",): (20, "new"), ("d",): (40, "new")})

    def double(dual: DualMap) -> Counter[tuple[str]]:
        seen: Counter[tuple[str]] = Counter()
        for key, (n, _) in dual.iterator():
            seen[key] += n
            dual.updateValue(key, (2 * n, "doubled"))
        return seen

    seen = calls.do("g", double)
    assert seen == {("a",): 1, ("b",): 20, ("c",): 3, ("d",): 40}
    assert sorted(calls.do("g", lambda dual: list(dual.keys()))) == sorted(seen)
    assert sorted(n for n, _ in calls.do("g", lambda dual: list(dual.values()))) == [2, 6, 40, 80]
    assert calls.tester.peekMapState("last", "g") in ({}, {("b",): (2,)})
    assert calls.do("g", lambda dual: dual.converge())
    assert calls.tester.peekMapState("last", "g") == {}


def test_a_key_that_moves_while_a_map_is_read_is_still_shown() -> None:
    def read(dual: DualMap) -> list[tuple[tuple[str], tuple[int, str]]]:
        entries = dual.iterator()
        first = next(entries)
        dual.updateValue(("b",), (20, "new"))
        return [first, *entries]

    assert map_of({("a",): (1,), ("b",): (2,)}).do("g", read) == [(("a",), (1, "old")), (("b",), (2, "old"))]


def test_a_map_is_cleared_of_both_copies() -> None:
    calls = map_of({("a",): (1,), ("b",): (2,)})
    calls.do("g", lambda dual: dual.updateValue(("c",), (3, "new")))
    assert calls.do("g", lambda dual: (dual.exists(), dual.clear(), dual.exists())) == (True, None, False)
    assert calls.tester.peekMapState("last", "g") == calls.tester.peekMapState("last2", "g") == {}
    assert calls.processor.dual.progress.moved_by_delete == 2


def test_a_map_of_what_is_dropped_is_empty() -> None:
    calls = Calls(lambda handle: DualMap(handle, **MAP, convert=lambda row: None, may_drop=True))
    calls.tester.updateMapState("last", "g", {("a",): (1,)})
    assert calls.do("g", lambda dual: (dual.exists(), list(dual.iterator()))) == (False, [])


def test_an_old_value_beside_a_new_one_is_said(caplog: pytest.LogCaptureFixture) -> None:
    calls = totals()
    calls.tester.updateValueState("totals", "a", (4, 1.0))
    calls.tester.updateValueState("count", "a", (1,))
    with caplog.at_level(logging.WARNING):
        assert calls.do("a", lambda dual: dual.converge())
    assert "a count" in caplog.text
    assert "the new one wins" in caplog.text
    assert calls.processor.dual.progress.superseded == 1
    assert calls.tester.peekValueState("totals", "a") == (4, 1.0)


def test_what_cannot_be_converted_is_named_by_its_grouping_key() -> None:
    calls = totals(convert=lambda row: row[0], on_reject="quarantine")
    calls.tester.updateValueState("count", "a", (1,))
    calls.tester.updateValueState("count", "b", (2,))
    assert [calls.do(key, lambda dual: dual.converge()) for key in "ab"] == [False, False]
    reason = "convert raised TypeError: it gave int, not a tuple"
    assert calls.processor.dual.rejects() == [(b"a count", reason), (b"b count", reason)]
    assert calls.processor.dual.progress.rejected == 2
    assert raises(ConversionError, "not a tuple", calls.do, "b", lambda dual: dual.get()).key == b"b count"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((1, 0), "DoubleType"),
        ((1 << 63, 0.0), "OUT_OF_BOUNDS"),
        ((1,), "fields"),
        ((np.int64(1), np.float32(0.5)), ""),
        ((1, None), ""),
    ],
    ids=str,
)
def test_a_row_that_the_new_schema_does_not_take_is_a_reject(row: tuple[Any, ...], reason: str) -> None:
    """PySpark would write null for it, and the old value would be gone."""
    schema = StructType([StructField("n", LongType()), StructField("sum", DoubleType())])
    calls = totals(new=("totals", schema), convert=lambda _: row, on_reject="quarantine")
    calls.tester.updateValueState("count", "a", (1,))
    assert calls.do("a", lambda dual: dual.converge()) is (not reason)
    assert [reason in why for _, why in calls.processor.dual.rejects()] == [True] * bool(reason)


def test_a_handle_that_cannot_be_is_refused() -> None:
    raises(SpecError, "totals is the new variable and the old one", totals, old=("totals", "n int"))
    keyed = {**MAP, "new": ("last2", "k int", "n long")}
    declared = lambda handle: DualMap(handle, **keyed, convert=with_zero)  # noqa: E731
    raises(SpecError, "the keys of last are k string, those of last2 k int", Calls, declared)
    raises(SpecError, "on_reject is 'skip'", totals, on_reject="skip")


def test_a_pyspark_that_does_not_tell_its_keys_is_refused() -> None:
    class Other(StatefulProcessorHandle):
        def __init__(self) -> None: ...
        def getValueState(self, *_: object) -> Any:  # noqa: ANN401
            return Mock()

    refused = raises(RefusedError, "does not say which key", lambda: DualValue(Other(), **VALUE, convert=with_zero))
    assert "4.1 to 4.3" in refused.hint


def test_a_worker_imports_neither_spark_nor_a_store() -> None:
    code = "import sys, migrate.processors.spark; print(*sorted({'pyspark', 'rocksdict', 'py4j'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
