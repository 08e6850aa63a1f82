"""Tables in Spark with Delta, in `make test-delta`: exported ones read there, and one that it wrote imported."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from formats.registry import get_format
from migrate import RefusedError, Spec, export
from tests.batch.test_import_refusals import refused
from tests.rows.exported import TEXT, expected, orders_spec, rows, unfinished
from tests.shared.imports import FORMAT, import_here, import_spec, spread, stored
from tests.shared.imports import TEXT as OF_ROWS
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


def test_a_table_with_deletion_vectors_is_imported_once_spark_has_applied_them(tmp_path: Path) -> None:
    spec, table = import_spec(tmp_path, conversion={**OF_ROWS, "allow": ["changelog"]}), tmp_path / "table"
    code = (
        "table = sys.argv[1]\n"
        "rows = spark.range(0, 1000, 1, 2).selectExpr(\n"
        "    \"concat('key-', id) as key\", \"concat('value ', id) as value\", 'timestamp_millis(id) as timestamp')\n"
        "rows.write.format('delta').save(table)\n"
        "spark.sql(f'alter table delta.`{table}` set tblproperties (delta.enableDeletionVectors = true)')\n"
        "spark.sql(f'delete from delta.`{table}` where timestamp_millis(500) <= timestamp and key like \"%7\"')\n"
        "answer = spark.table(f'delta.`{table}`').count()\n"
    )
    assert in_spark(tmp_path, code, table) == 950
    hint = refused(RefusedError, "has deletion vectors", spec, table)
    assert "io.delta:delta-spark" in hint
    (purge,) = re.findall(r"REORG TABLE .* APPLY \(PURGE\)", hint)  # what the hint says is what is done
    in_spark(tmp_path, "spark.sql(sys.argv[1])\nanswer = None", purge)
    report = import_here(spec, table)
    kept = [number for number in range(1000) if number < 500 or number % 10 != 7]
    wanted = {b"key-%d" % each: each.to_bytes(8, "big") + b"value %d" % each for each in kept}
    assert (report.totals.records_out, report.verification.ok) == (950, True)
    assert spec.target_path is not None
    found = stored(get_format(FORMAT), spec.target_path, 3)
    assert [each["."] for each in found] == spread(get_format(FORMAT), wanted, 3)
