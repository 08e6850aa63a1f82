"""The code of the pages does what they say, in the real hosts."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import faust
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.tws_tester import TwsTester

from migrate.processors.faust import DualTable
from migrate.processors.quix import DualState, Renamed
from tests.processors.faust_host import both
from tests.processors.quix_host import Context, adapter, converge, put, stored
from tests.processors.test_faust import KEYS, Group, as_sum, at
from tests.processors.test_faust import converge as converge_tables
from tests.processors.test_quix import count

ROOT = Path(__file__).parents[2]


def block_with(page: str, what: str) -> str:
    """The one piece of Python in a page that contains it."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    (found,) = [block for block in blocks if what in block]
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/processors.md"])
def test_an_old_total_shows_through_in_quix_streams(page: str, tmp_path: Path) -> None:
    context = Context(tmp_path)
    context.state(b"alice").set("total", 5)

    def count(_: object, state: Any) -> int:  # noqa: ANN401 - as the function of a dataframe
        total: int = state.get("totals", {"sum": 0})["sum"]
        return total

    applied = []
    sdf = SimpleNamespace(**vars(context.sdf), apply=lambda function, *, stateful: applied.append((function, stateful)))
    exec(block_with(page, "migrate.processors.quix"), {"sdf": sdf, "count": count})
    ((function, stateful),) = applied
    context.commit()
    assert stateful
    assert context.call(function, b"alice") == 5
    context.close()


def test_a_marker_moves_a_count_in_spark_and_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    markers = ModuleType("markers")
    exec(block_with("docs/processors.md", "# markers.py"), vars(markers))
    monkeypatch.setitem(sys.modules, "markers", markers)
    names: dict[str, Any] = {"StatefulProcessor": StatefulProcessor}
    exec(block_with("docs/processors.md", "migrate.processors.spark"), names)
    own = {"count": lambda self, key, rows: [Row(rows=len(rows))], "close": lambda self: None}
    tester = TwsTester(type("Whole", (names["Totals"],), own)())
    for customer in ("alice", "bob"):
        tester.updateValueState("count", customer, (5,))
    marker = Row(**json.loads(markers.marker(Row(customer="alice"))))
    assert tester.test("alice", [marker]) == []
    assert [tester.peekValueState(name, "alice") for name in ("count", "totals")] == [None, (5, 0.0)]
    assert tester.test("bob", [marker, Row(customer="bob", amount=3)]) == [Row(rows=1)]


def test_two_tables_of_faust_are_one(tmp_path: Path) -> None:
    app = faust.App("pages", store="rocksdb://", datadir=tmp_path)
    names: dict[str, Any] = {"app": app}
    exec(block_with("docs/processors.md", "migrate.processors.faust"), names)
    assert isinstance(names["counts"], DualTable)
    assert {*app.tables} == {"counts", "counts_v2"}


def test_in_quix_streams_the_other_way_round_takes_back_what_has_moved(tmp_path: Path) -> None:
    context = Context(tmp_path)
    put(context, {b"a": 5, b"b": 6, b"c": 7})
    dual = adapter(context, per_checkpoint=1)
    converge(context, 1)
    context.call(dual(count), b"b")
    context.commit()
    assert sorted(stored(context)) == [b'a|"totals"', b'b|"totals"', b'c|"total"']
    context.close()
    context = Context(tmp_path)

    def old_count(_: object, state: Any) -> None:  # noqa: ANN401 - as the function of a dataframe
        state.set("total", state.get("total", 0) + 1)

    sdf: Any = SimpleNamespace(**vars(context.sdf), apply=lambda function, *, stateful: function)
    names = {"sdf": sdf, "old_count": old_count, "DualState": DualState, "Renamed": Renamed}
    exec(block_with("docs/processors.md", "old_count"), names)
    for key in (b"b", b"c", b"d"):
        context.call(names["sdf"], key)
    while not names["back"].is_converged:
        converge(context, 1)
    assert stored(context) == {b'a|"total"': b"5", b'b|"total"': b"8", b'c|"total"': b"8", b'd|"total"': b"1"}
    context.close()


@pytest.mark.parametrize("is_finished", [True, False])
def test_in_faust_the_other_way_round_takes_back_what_has_converged(is_finished: bool, tmp_path: Path) -> None:
    """Before that the old table may still have what the new one has, and it would win."""
    group = Group(tmp_path)
    worker, table = group.dual()
    with at(worker, "k1"):
        table["k1"] = as_sum(10)
    worker.settle()
    if is_finished:
        converge_tables(worker, table)

    def back(app: faust.App) -> Any:  # noqa: ANN401 - an adapter
        new, old = both(app)
        return DualTable(old, new, lambda value: value["sum"], share=1)

    worker = group.start(back)
    with at(worker, "k2"):
        worker.made["k2"] += 10
    converge_tables(worker, worker.made)
    old, new = group.rebuilt()
    group.workers[0].stop()
    assert (old, new) == ({key: n for n, key in enumerate(KEYS)} | {"k1": 10 if is_finished else 1, "k2": 12}, {})
