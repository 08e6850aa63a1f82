"""Real queries of PySpark that move from old state variables to new ones, by the keys that arrive and by a sweep."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.processors.spark_queries import PAIRS, open_session, run, start, state, variables, write_rows
from tests.shared.commands import InProcess, Outcome

KEYS = 12


def marker(key: tuple[str]) -> str:
    return json.dumps({"k": key[0]})


def with_a_break(key: tuple[str]) -> bytes:
    return b"{}\n{}"


def nothing(key: tuple[str]) -> None: ...


COMMITS: list[Path] = []
"""Of the query that `late` waits for."""


def late(key: tuple[str]) -> str:
    """A marker that is made once the query has got on by a batch."""
    before = {*COMMITS[0].iterdir()}
    while {*COMMITS[0].iterdir()} == before:
        time.sleep(0.05)
    return marker(key)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with open_session() as session:
        yield session


def add(folder: Path, number: int, keys: int = KEYS) -> None:
    write_rows(folder / "input", f"b{number}", {f"k{key}": [10 * number + key, key] for key in range(keys)})


def sweep(folder: Path, *options: str, to: str = "input", marks: str = "marker") -> Outcome:
    chosen = {"--variable": "count", "--to": str(folder / to), "--marker": f"{__name__}:{marks}"}
    chosen |= dict(zip(options[::2], options[1::2], strict=True))
    return InProcess().run(["sweep", str(folder / "checkpoint"), *(part for pair in chosen.items() for part in pair)])


def move(spark: SparkSession, folder: Path, kind: str, slices: tuple[int, ...]) -> None:
    """The whole way from the old form, by five keys that arrive and by markers."""
    add(folder, 0)
    run(spark, folder, f"Old{kind}")
    add(folder, 1, keys=5)
    run(spark, folder, f"Dual{kind}")
    assert {key for key, _ in state(spark, folder, "count")} == {f"k{key}" for key in range(5, KEYS)}
    for number, written in enumerate(slices):
        left = sum(slices[number:])
        done = sweep(folder, "--limit", str(slices[0]))
        assert done.code == (5 if left else 0), done.err
        assert f"{left} after batch" in done.out
        assert ("next      run the query" in done.out) == bool(left)
        assert (f"{written} markers to" in done.out) == bool(written)
        if left:
            run(spark, folder, f"Dual{kind}")
    assert "deleteIfExists('count')" in done.out
    assert [state(spark, folder, old) for old in PAIRS] == [[], [], []]


def test_a_query_ends_as_one_that_had_the_new_form_from_the_start(spark: SparkSession, tmp_path: Path) -> None:
    move(spark, tmp_path, "Form", (4, 3, 0))
    add(tmp_path, 3, keys=2)
    run(spark, tmp_path, "FinalForm")
    assert variables(spark, tmp_path) == {*PAIRS.values()}
    run(spark, tmp_path, "NewForm", checkpoint="fresh")
    for name in PAIRS.values():
        found = state(spark, tmp_path, name)
        assert len(found) >= KEYS
        assert found == state(spark, tmp_path, name, checkpoint="fresh")


def test_state_that_expires_moves_too(spark: SparkSession, tmp_path: Path) -> None:
    move(spark, tmp_path, "Ttl", (7, 0))
    run(spark, tmp_path, "NewTtl", checkpoint="fresh")
    for name in PAIRS.values():
        assert state(spark, tmp_path, name) == state(spark, tmp_path, name, checkpoint="fresh")


def test_a_value_that_cannot_be_converted_ends_the_batch_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path, 0)
    run(spark, tmp_path, "OldForm")
    before = [state(spark, tmp_path, old) for old in PAIRS]
    add(tmp_path, 1)
    with pytest.raises(StreamingQueryException) as ended:
        run(spark, tmp_path, "FailingForm")
    assert re.search(r'the old value of "k\d+ count" cannot be converted', str(ended.value))
    run(spark, tmp_path, "DualForm")
    assert before[0]
    assert [state(spark, tmp_path, old) for old in PAIRS] == [[], [], []]
    assert len(state(spark, tmp_path, "totals")) == KEYS


def test_a_sweep_that_cannot_be_meant_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    none = sweep(tmp_path)
    assert "is not the checkpoint of a query" in none.message
    add(tmp_path, 0)
    run(spark, tmp_path, "OldForm")
    refused = {
        sweep(tmp_path, "--variable", "cuont"): (6, "no state variable of this query, which has count, last, seen"),
        sweep(tmp_path, to="elsewhere"): (6, f"is no source of this query, which reads {tmp_path / 'input'}"),
        sweep(tmp_path, "--to", "orders"): (6, "Spark takes no second source"),
        sweep(tmp_path, marks="nothing"): (2, "is None: not a text, nor bytes next: give a row of the query's source"),
        sweep(tmp_path, marks="with_a_break"): (2, "has several lines"),
        sweep(tmp_path, marks="other"): (2, "there is no function"),
        sweep(tmp_path, "--marker", "no_such_module:f"): (2, "cannot be imported"),
        none: (6, "after a run of it"),
    }
    for outcome, (code, message) in refused.items():
        assert (outcome.code, message in outcome.message) == (code, True), outcome
    assert [each.name for each in (tmp_path / "input").glob("*")] == ["b0.json"]


def test_a_query_that_runs_is_not_swept(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0)
    run(spark, tmp_path, "OldTtl")
    COMMITS[:] = [tmp_path / "checkpoint/commits"]
    query = start(spark, tmp_path, "OldTtl")  # it has batches without rows all the time
    try:
        refused = sweep(tmp_path, "--limit", "1", marks="late")
    finally:
        query.stop()
    assert refused.code == 6
    assert "the query is running" in refused.message
    assert [each.name for each in (tmp_path / "input").glob("*")] == ["b0.json"]
