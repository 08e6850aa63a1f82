"""The checks that need Spark: their names and claims, for whoever lists them without a JVM."""

from __future__ import annotations

from migrate.checks import CheckReport

SPARK_CHECKS: dict[str, str] = {
    "spark.java": "a Java that can start Spark is there",
    "spark.session": "a Spark session starts on the master",
    "spark.tasks": "the executors take tasks, in the driver's version of Python",
    "spark.packages": "the executors have what a task imports, in the driver's versions",
    "spark.source": "every executor sees the old store, at the driver's path",
    "spark.work_dir": "every executor reads and writes the work_dir that the driver has, at the driver's path",
    "spark.clock": "the executors' clocks agree with the driver's",
    "spark.memory": "the executors' hosts have the memory that their workers need",
}
"""In the order in which they run."""


def not_run(reason: str) -> tuple[CheckReport, ...]:
    """All of them, where there is no Spark."""
    return tuple(
        CheckReport(name=name, claim=claim, outcome="not run", detail=reason) for name, claim in SPARK_CHECKS.items()
    )
