"""Real queries of PySpark that move from old state variables to new ones, by the keys that arrive and by a sweep."""

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.processors.spark_queries import (
    DAY,
    PAIRS,
    open_session,
    run,
    start,
    state,
    variables,
    wait_for_input,
    write_rows,
)
from tests.shared.commands import InProcess, Outcome

KEYS = 12


def marker(key: tuple[str]) -> str:
    return json.dumps({"k": key[0]})


def marker_too_late(key: tuple[str]) -> str:
    return json.dumps({"k": key[0], "ts": DAY.format(1)})


def marker_in_time(key: tuple[str]) -> str:
    return json.dumps({"k": key[0], "ts": DAY.format(3)})


def with_a_break(key: tuple[str]) -> bytes:
    return b"{}\n{}"


def with_a_return(key: tuple[str]) -> str:
    """Spark reads two lines."""
    return "{}\r{}"


def nothing(key: tuple[str]) -> None: ...


def ending(key: tuple[str]) -> str:
    sys.exit()


COMMITS: list[Path] = []
"""Of the query that `late` waits for."""


def late(key: tuple[str]) -> str:
    """A marker that is made once the query has got on by a batch."""
    before = {*COMMITS[0].iterdir()}
    deadline = time.monotonic() + 120
    while {*COMMITS[0].iterdir()} == before:
        assert time.monotonic() < deadline, "the query stands still"
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


def sweep_all(spark: SparkSession, folder: Path, kind: str, slices: tuple[int, ...]) -> None:
    """Old keys go by markers, so many in each run of the query."""
    for number, written in enumerate(slices):
        left = sum(slices[number:])
        done = sweep(folder, "--limit", str(slices[0]))
        assert done.code == (5 if left else 0), done.err
        assert f"{left} after batch" in done.out
        assert (re.search("next +run the query", done.out) is not None) == bool(left)
        assert ("look whether markers are late, not parsed" in done.out) == bool(left)
        assert (f"{written} markers to" in done.out) == bool(written)
        if left:
            run(spark, folder, f"Dual{kind}")
    assert "deleteIfExists('count')" in done.out
    assert "warning" not in done.out
    assert [state(spark, folder, old) for old in PAIRS] == [[], [], []]


def check_like_new(spark: SparkSession, folder: Path, form: str) -> None:
    """The state is that of a query that had the new form from the start, and read the same input."""
    run(spark, folder, form, checkpoint="fresh")
    for name in PAIRS.values():
        found = state(spark, folder, name)
        assert len(found) >= KEYS
        assert found == state(spark, folder, name, checkpoint="fresh")


def newest(folder: Path, log: str) -> int:
    return max((int(each.name) for each in (folder / "checkpoint" / log).glob("*") if each.name.isdigit()), default=-1)


def kill_one(folder: Path, log: str, delay: float) -> None:
    """Start the query in a process of its own, and kill that soon after an entry of the log was written."""
    before = newest(folder, log)
    command = [sys.executable, "-m", "tests.processors.spark_queries", str(folder), "DualForm"]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        while newest(folder, log) == before and process.poll() is None:
            time.sleep(0.002)
        time.sleep(delay)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [3, 20])
def test_a_query_that_is_killed_ends_as_one_that_had_the_new_form(
    spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    """Killed in a batch, between two, and anywhere; `kills` keys arrive, the others get markers."""
    chance = random.Random(kills)
    write_rows(tmp_path / "input", "b0", {f"k{key}": [key, key + 3] for key in range(KEYS + kills)})
    run(spark, tmp_path, "OldForm")
    for number in range(1, kills + 1):
        write_rows(tmp_path / "input", f"b{number}", {f"k{number}": [10 * number], "k0": [number]})
    unfinished = 0
    for number in range(kills):
        log, delay = (("offsets", 0.0), ("commits", 0.0), ("offsets", chance.uniform(0, 1)))[number % 3]
        kill_one(tmp_path, log, delay)
        unfinished += newest(tmp_path, "offsets") > newest(tmp_path, "commits")
    assert unfinished, "none was killed in a batch"
    run(spark, tmp_path, "DualForm")
    assert {key for key, _ in state(spark, tmp_path, "count")} == {f"k{key}" for key in range(kills + 1, KEYS + kills)}
    sweep_all(spark, tmp_path, "Form", (KEYS - 4, 3, 0))
    write_rows(tmp_path / "input", "last", {"k1": [99], "k5": [98]})
    run(spark, tmp_path, "FinalForm")
    assert variables(spark, tmp_path) == {*PAIRS.values()}
    check_like_new(spark, tmp_path, "NewForm")


def test_state_that_expires_moves_too(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0)
    run(spark, tmp_path, "OldTtl")
    add(tmp_path, 1, keys=5)
    run(spark, tmp_path, "DualTtl")
    sweep_all(spark, tmp_path, "Ttl", (KEYS - 5, 0))
    check_like_new(spark, tmp_path, "NewTtl")


def test_a_value_that_cannot_be_converted_ends_the_batch_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path, 0)
    run(spark, tmp_path, "OldForm")
    before = [state(spark, tmp_path, old) for old in PAIRS]
    add(tmp_path, 1)
    with pytest.raises(StreamingQueryException) as ended:
        run(spark, tmp_path, "FailingForm")
    assert re.search(r'the old value of "k\d+ count" cannot be converted.*LongType', str(ended.value))
    run(spark, tmp_path, "DualForm")
    assert before[0]
    assert [state(spark, tmp_path, old) for old in PAIRS] == [[], [], []]
    assert len(state(spark, tmp_path, "totals")) == KEYS


def test_a_marker_behind_the_watermark_is_said_to_be_late(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "input", "b0", {"k0": [1], "k1": [1]}, day=2)
    run(spark, tmp_path, "OldTimed")
    for marks, left in (("marker_too_late", 2), ("marker_in_time", 0)):
        swept = sweep(tmp_path, marks=marks)
        assert "2 after batch" in swept.out
        said = " ".join(swept.out.split())
        assert "2026-01-02 00:00:00 UTC: a marker of that time or an earlier one is dropped as late;" in said
        assert "one that is later by more than the watermark's delay moves the watermark" in said
        run(spark, tmp_path, "DualTimed")
        assert len(state(spark, tmp_path, "count")) == left


def test_a_sweep_that_cannot_be_meant_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    none = sweep(tmp_path)
    assert "is not the checkpoint of a query" in none.message
    add(tmp_path, 0)
    run(spark, tmp_path, "OldForm")
    refused = {
        sweep(tmp_path, "--variable", "cuont"): (6, "seen next: name the old variable as `init` does; after"),
        sweep(tmp_path, to="elsewhere"): (6, f"is no source of this query, which reads {tmp_path / 'input'}"),
        sweep(tmp_path, "--to", "orders"): (6, "Spark takes no second source"),
        sweep(tmp_path, marks="nothing"): (2, "is None: not a text, nor bytes next: give a row of the query's source"),
        sweep(tmp_path, marks="with_a_break"): (2, "has several lines"),
        sweep(tmp_path, marks="with_a_return"): (2, "has several lines"),
        sweep(tmp_path, marks="ending"): (2, "fails: SystemExit"),
        sweep(tmp_path, marks="markr"): (2, "has no function 'markr' next: did you mean 'marker'?"),
        sweep(tmp_path, "--marker", "marker"): (2, "names no function"),
        sweep(tmp_path, "--marker", "migrate:run"): (2, "--marker: 'migrate' is the name of a package of Stateferry"),
        sweep(tmp_path, "--marker", "script:f"): (2, "cannot be imported: SystemExit"),
        sweep(tmp_path, "--marker", "no_such_module:f"): (2, "cannot be imported"),
        none: (6, "after a run of it"),
    }
    for outcome, (code, message) in refused.items():
        assert (outcome.code, message in outcome.message) == (code, True), outcome
    assert [each.name for each in (tmp_path / "input").glob("*")] == ["b0.json"]
    (tmp_path / "input").rename(tmp_path / "moved")
    (tmp_path / "input").touch()
    unwritten = sweep(tmp_path)
    assert (unwritten.code, f"Spark cannot write to {tmp_path / 'input'}" in unwritten.message) == (6, True)
    shutil.rmtree(tmp_path / "checkpoint/state/0/0")
    unread = sweep(tmp_path)
    assert (unread.code, "settings of its Spark are needed here, too" in unread.message) == (6, True), unread
    (tmp_path / "checkpoint/offsets/.0.crc").unlink()
    (tmp_path / "checkpoint/offsets/0").write_text("v1\n{\n")
    damaged = sweep(tmp_path)
    assert (damaged.code, "the offsets of batch 0 in" in damaged.message) == (6, True)


def test_markers_are_files_of_the_kind_that_the_query_reads(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0, keys=2)
    file = tmp_path / "input/b0.json"
    (tmp_path / "input/b0.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    run(spark, tmp_path, "OldForm")
    assert sweep(tmp_path).code == 5
    (made,) = (tmp_path / "input").glob("stateferry-sweep-*.json.gz")
    assert len(gzip.decompress(made.read_bytes()).splitlines()) == 2
    run(spark, tmp_path, "DualForm")
    assert state(spark, tmp_path, "count") == []
    (tmp_path / f"input/stateferry-sweep-{'0' * 32}.json.gz").write_bytes(made.read_bytes())
    unread = sweep(tmp_path)
    assert (unread.code, f"1 file with markers in {tmp_path / 'input'}" in unread.out) == (5, True)
    assert "run the query until it has read the markers" in unread.out
    run(spark, tmp_path, "DualForm")
    read = sweep(tmp_path)
    assert (read.code, "not committed" in read.out, "warning" in read.out) == (0, False, False)
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint/commits" / name).unlink()
    noted = tmp_path / "checkpoint/state/0/_metadata/v2/0"
    noted.with_name(".0.crc").unlink()
    noted.write_text(noted.read_text().replace("count", "cuont"))  # as if `count` were a mistake of the new code
    unfinished = sweep(tmp_path)
    assert (unfinished.code, "1 file with markers" in unfinished.out) == (5, True)
    assert "batch 2 was begun and not committed: see that the query is stopped" in unfinished.out
    assert "count came with the newest variables: see that the old code used that name" in unfinished.out
    add(tmp_path, 1, keys=2)
    (tmp_path / "input/b1.json").rename(tmp_path / "input/z.parquet")  # Spark reads what the query says
    run(spark, tmp_path, "OldForm")
    refused = sweep(tmp_path)
    assert (refused.code, "cannot be written as lines of text: .parquet" in refused.message) == (6, True)


def test_a_query_that_runs_is_not_swept(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0)
    COMMITS[:] = [tmp_path / "checkpoint/commits"]
    query = start(spark, tmp_path, "OldTtl")
    try:
        wait_for_input(query, tmp_path)  # from here on it has batches without rows all the time
        refused = sweep(tmp_path, "--limit", "1", marks="late")
    finally:
        query.stop()
    assert refused.code == 6
    assert "the query is running" in refused.message
    assert [each.name for each in (tmp_path / "input").glob("*")] == ["b0.json"]
