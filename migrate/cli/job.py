"""`run`, as the command and the Spark job share it."""

from __future__ import annotations

import sys

import click

from migrate.cli.errors import exit_code_of
from migrate.cli.group import Job
from migrate.cli.options import Output, current_output


def run_and_show(spec_path: str, master: str | None, *, on_spark: bool, output: Output, show: bool = True) -> None:
    """Run a spec with progress on standard error, and print the report."""
    from migrate.cli.progress import progress
    from migrate.cli.show import show_run
    from migrate.interruption import Stop, stopping_on_signals
    from migrate.runner import in_process, run_with, spark
    from migrate.spec import load_spec

    spec = load_spec(spec_path)
    stop = Stop()
    with stopping_on_signals(stop), progress(output) as listener:
        report = run_with(spark(master) if on_spark else in_process, spec, on_event=listener, stop=stop)
    if show:
        output.show(report, show_run)


@click.command(cls=Job)
@click.option("--spec", "spec_path", required=True, type=click.Path(), help="The migration spec, a TOML file.")
def main(spec_path: str) -> None:
    """Migrate state stores on Spark, chunk by chunk, resuming where an earlier run stopped.

    \b
    spark-submit jobs/migrate_job.py --spec migration.toml
    spark-submit --master spark://host:7077 jobs/migrate_job.py --spec migration.toml
    """
    output = current_output()
    sys.exit(exit_code_of(lambda: run_and_show(spec_path, None, on_spark=True, output=output), output))
