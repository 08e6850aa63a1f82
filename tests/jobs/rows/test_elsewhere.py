"""Sessions whose workers are other processes: a cluster's, which get our code, and a server of Spark Connect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.queries.views.made import key_value
from tests.support import numbered, shadow_our_packages

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from jobs.rows import register
{session}
spark.conf.set("spark.sql.shuffle.partitions", "2")
register(spark)
spark.sql(f"CREATE TEMPORARY VIEW orders USING stateferry OPTIONS (path '{sys.argv[1]}', store 'orders', "
          "format 'kafka-streams.key-value', key 'text')")
orders = spark.table("orders")
found = {"kind": type(spark).__module__, "records": orders.count(), "keys": orders.select("key").distinct().count(),
         "joined": orders.join(orders.select("key"), "key").count(), "limited": len(orders.limit(3).collect())}
try:
    spark.read.format("stateferry").option("pth", "x").load().count()
except Exception as error:
    found["said"] = str(error)
print(json.dumps(found))
spark.stop()
"""
CLUSTER = """
settings = {
    "spark.executorEnv.PYTHONPATH": sys.argv[2], "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.task.maxFailures": "1",
}
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
"""
REMOTE = 'spark = SparkSession.builder.remote("local[2]").getOrCreate()'


def run(session: str, app: Path, elsewhere: Path) -> dict[str, object]:
    command = [sys.executable, "-c", SCRIPT.replace("{session}", session)]
    ours = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    elsewhere.mkdir()
    shadow_our_packages(elsewhere)
    done = subprocess.run(
        [*command, str(app), str(elsewhere)],
        capture_output=True,
        text=True,
        env=os.environ | ours,
        cwd=app,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "session, kind",
    [(CLUSTER, "pyspark.sql.session"), (REMOTE, "pyspark.sql.connect.session")],
    ids=["cluster", "connect"],
)
def test_a_view_is_read(session: str, kind: str, tmp_path: Path) -> None:
    if session == REMOTE:
        pytest.importorskip("grpc", reason="Spark Connect needs pip install 'pyspark[connect]'")
    app = key_value(tmp_path, *(numbered(1000, seed=seed, prefix=b"%d-" % seed) for seed in range(4)))
    found = run(session, app, tmp_path / "elsewhere")
    assert "unknown option 'pth': did you mean 'path'?" in str(found.pop("said"))
    assert found == {"kind": kind, "records": 4000, "keys": 4000, "joined": 4000, "limited": 3}
