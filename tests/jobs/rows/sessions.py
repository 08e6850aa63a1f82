"""A user's own Spark session, and stores that it reads."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.rows import register
from jobs.session import gateway, running_jvm
from tests.support import KEY_VALUE

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def users_session(master: str = "local[2]", settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """As a user makes one, with our data source."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with running_jvm(is_local=True):
        builder = SparkSession.builder.master(master)
        for name, value in {**SETTINGS, **(settings or {})}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        jvm = gateway().proc
        try:
            register(spark)
            yield spark
        finally:
            spark.stop()
    jvm.wait(timeout=60)


def rows(spark: SparkSession, app: Path, format_id: str = KEY_VALUE, **options: str) -> DataFrame:
    """The store `orders`."""
    given = {"path": str(app), "store": "orders", "format": format_id, **options}
    return spark.read.format("stateferry").options(**given).load()


def refused(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """What a person reads: a few lines, and no stack."""
    said = str(error.value)
    assert "next: " in said
    assert "Traceback" not in said and 'File "' not in said and "\tat " not in said
    assert len(said.splitlines()) <= 6, said
    return said
