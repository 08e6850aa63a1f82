"""An exported table in Spark with Delta, in `make test-delta`: its versions, its columns, its own maintenance."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from migrate import Spec, export
from tests.rows.exported import TEXT, expected, orders_spec, rows, unfinished
from tests.spark.job import BASE_PYTHON, completed
from tests.support import make_store, numbered, open_store, raw_spec

pytestmark = pytest.mark.skipif(find_spec("delta") is None, reason="delta-spark is not installed: make test-delta")
SESSION = """
import json, sys
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}.items():
    builder = builder.config(name, value)
spark = configure_spark_with_delta_pip(builder).getOrCreate()

def counts(table, version=None):
    what = f"delta.`{table}`" + ("" if version is None else f" version as of {version}")
    return [[*row] for row in sorted(spark.sql(f"select task, count(*) from {what} group by task").collect())]
"""


def in_spark(folder: Path, code: str, *arguments: object) -> Any:  # noqa: ANN401 - JSON
    """What the code calls `answer`."""
    script = folder / "read.py"
    script.write_text(f"{SESSION}\n{code}\nprint('ANSWER', json.dumps(answer, default=str))\n")
    done = completed([BASE_PYTHON, str(script), *map(str, arguments)], folder, PYSPARK_SUBMIT_ARGS="pyspark-shell")
    assert done.exit_code == 0, done.errors
    (answer,) = [line for line in done.output.splitlines() if line.startswith("ANSWER")]
    return json.loads(answer.removeprefix("ANSWER"))


def change(spec: Spec) -> None:
    with open_store(spec.source_path / "0_1/rocksdb/orders") as store:
        store[b"new"] = b"later"


def test_spark_reads_every_version_and_may_compact_the_table(tmp_path: Path) -> None:
    run = {"chunk_size": "64 KiB"}  # several files for each task, and few
    spec = orders_spec(tmp_path, conversion={**TEXT, "allow": ["changelog"]}, run=run)
    table, bare = tmp_path / "table", tmp_path / "bare"
    first = export(spec, table)
    change(spec)
    second = export(spec, table, columns=["key"])
    unfinished(spec, table)
    make_store(tmp_path / "old", numbered(2000))
    export(raw_spec(tmp_path, tmp_path / "old"), bare)
    whole: list[list[object]] = [[task, len(each)] for task, each in expected().items()]
    later = [[task, len(each) + (task == "0_1")] for task, each in expected().items()]
    code = (
        "table, bare, first = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
        "then = spark.read.format('delta').option('versionAsOf', first).load(table)\n"
        "answer = {'then': counts(table, first), 'now': counts(table), 'columns': then.columns, 'bare': counts(bare)}\n"
        "answer['rows'] = sorted(map(list, spark.sql(f'select task, key from delta.`{table}`').collect()))\n"
        "for command in ('optimize', 'vacuum'):\n"
        "    spark.sql(f'{command} delta.`{table}`')\n"
        "answer['compacted'] = counts(table)\n"
    )
    answer = in_spark(tmp_path, code, table, bare, first.version)
    assert answer["then"] == whole
    assert answer["now"] == answer["compacted"] == later
    assert answer["columns"] == ["task", "partition", "key", "value"]
    assert answer["rows"] == sorted([row["task"], row["key"]] for row in rows(table, second.version))
    assert answer["bare"] == [[None, 2000]]
    export(spec, table)
    code = "answer = [counts(sys.argv[1]), counts(sys.argv[1], int(sys.argv[2]))]"
    assert in_spark(tmp_path, code, table, first.version) == [later, whole]
