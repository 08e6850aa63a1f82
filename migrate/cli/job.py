"""`run`, as the command and the Spark job share it."""

from __future__ import annotations

import sys

import click

from migrate.cli.errors import exit_code_of


def run_and_show(
    spec_path: str, master: str | None, *, on_spark: bool, as_json: bool, quiet: bool, show: bool = True
) -> None:
    """Run a spec with progress on standard error, and print the report."""
    from migrate.cli.progress import progress
    from migrate.cli.show import show_run
    from migrate.interruption import Stop, stopping_on_signals
    from migrate.runner import in_process, run_with, spark
    from migrate.spec import load_spec

    spec = load_spec(spec_path)
    stop = Stop()
    with stopping_on_signals(stop), progress(quiet=quiet) as listener:
        report = run_with(spark(master) if on_spark else in_process, spec, on_event=listener, stop=stop)
    if not show:
        return
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    else:
        show_run(report)


@click.command()
@click.option("--spec", "spec_path", required=True, type=click.Path(), help="The migration spec, a TOML file.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, and no progress.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(spec_path: str, *, as_json: bool, quiet: bool, debug: bool) -> None:
    """Migrate state stores on Spark, chunk by chunk, resuming where an earlier run stopped.

    \b
    spark-submit jobs/migrate_job.py --spec migration.toml
    spark-submit --master spark://host:7077 jobs/migrate_job.py --spec migration.toml
    """
    sys.exit(
        exit_code_of(
            # spark-submit sends a script's standard error to its standard output
            lambda: run_and_show(spec_path, None, on_spark=True, as_json=as_json, quiet=quiet or as_json),
            debug=debug,
        )
    )
