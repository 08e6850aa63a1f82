"""State stores as a data source of Spark: `register(spark)`, then `spark.read.format("stateferry")`."""

from jobs.rows.register import register

__all__ = ["register"]
