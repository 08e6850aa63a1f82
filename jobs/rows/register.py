"""Make the data source known to a Spark session, and its code to the session's Python workers."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.packing import packed
from jobs.rows.data_source import StateferrySource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let `spark.read.format("stateferry")` and `USING stateferry` read state stores, in this session.

    A session of Spark Connect too, whose server then reads the stores. Workers get the code of this process; those of
    a local master are of the same Python, unless PYSPARK_PYTHON or `spark.pyspark.python` names one.
    """
    if is_remote(spark):
        with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
            spark.addArtifacts(str(packed(Path(folder))), pyfile=True)
    else:
        from pyspark import SparkFiles

        context = spark.sparkContext
        is_named = "PYSPARK_PYTHON" in os.environ or context.getConf().get("spark.pyspark.python") is not None
        if str(context.master).startswith("local") and not is_named:
            context.pythonExec = sys.executable
        context.addPyFile(str(packed(Path(SparkFiles.getRootDirectory()))))
    spark.dataSource.register(StateferrySource)


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which has no SparkContext."""
    return ".connect." in type(spark).__module__
