"""The verbs. Imports are inside them: `--help` answers at once."""

from __future__ import annotations

from typing import Literal

import click

from migrate.cli.errors import finish
from migrate.cli.job import run_and_show
from migrate.cli.switch import abandon, cutover, finalize, rollback, snapshot, switch_and_show

_spec = click.argument("spec", type=click.Path())
_json = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
_quiet = click.option("--quiet", is_flag=True, help="Show no progress.")
_master = click.option("--master", default="local[*]", show_default=True, help="The Spark master to run on.")
_no_spark = click.option("--no-spark", is_flag=True, help="Work in this process, one chunk at a time, without a JVM.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stateferry", prog_name="stateferry")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def main(context: click.Context, *, debug: bool) -> None:
    """Move the state stores of stream processors from one format to another.

    \b
    Exit codes: 0 done, 1 a bug, 2 usage or spec, 3 failed chunks or too many rejects,
    4 verification found a difference, 5 interrupted (rerun to resume), 6 refused.
    """
    context.obj = debug


@main.command()
@_spec
@_master
@_no_spark
@click.option("--cutover", "and_cutover", is_flag=True, help="Then put the new stores in the old ones' places.")
@_json
@_quiet
def run(spec: str, master: str, *, no_spark: bool, and_cutover: bool, as_json: bool, quiet: bool) -> None:
    """Migrate: plan if new, rewrite what is missing, assemble, verify, publish.

    \b
    stateferry run migration.toml
    stateferry run migration.toml --master 'local[4]'
    """

    def work() -> None:
        show = not (and_cutover and as_json)  # one report is one JSON document: that of the last step
        run_and_show(spec, master, on_spark=not no_spark, as_json=as_json, quiet=quiet, show=show)
        if and_cutover:
            switch_and_show("cutover", spec, as_json=as_json)

    finish(work)


@main.command()
@_spec
@_json
def status(spec: str, *, as_json: bool) -> None:
    """Say where a migration stands, from its ledger alone.

    \b
    stateferry status migration.toml
    """

    def work() -> None:
        from migrate.cli.show import show_status
        from migrate.ledger_status import status as look
        from migrate.spec import load_spec

        report = look(load_spec(spec))
        click.echo(report.model_dump_json(indent=2)) if as_json else show_status(report)

    finish(work)


@main.command()
@_spec
@click.option(
    "--mode", type=click.Choice(["full", "digest"]), default="full", show_default=True, help="How to compare."
)
@_master
@_no_spark
@_json
@_quiet
def verify(
    spec: str, *, mode: Literal["full", "digest"], master: str, no_spark: bool, as_json: bool, quiet: bool
) -> None:
    """Compare the new stores, from disk, with what the old ones convert to.

    `full` converts the old records again and compares all of them; `digest` compares with the receipts of the run.

    \b
    stateferry verify migration.toml --mode digest
    """

    def work() -> None:
        from migrate.checking import verify as check
        from migrate.cli.progress import progress
        from migrate.cli.show import show_verify
        from migrate.interruption import Stop, stopping_on_signals
        from migrate.spec import load_spec

        loaded, stop = load_spec(spec), Stop()
        with stopping_on_signals(stop), progress(quiet=quiet) as listener:
            report = check(loaded, mode=mode, master=None if no_spark else master, on_event=listener, stop=stop)
        click.echo(report.model_dump_json(indent=2)) if as_json else show_verify(report)

    finish(work)


@main.command()
@click.argument("path", type=click.Path())
@click.option("--digest", is_flag=True, help="Read every record: exact counts and record digests.")
@_json
def inspect(path: str, *, digest: bool, as_json: bool) -> None:
    """Name what lies in a state directory or a RocksDB directory, without touching it.

    \b
    stateferry inspect state/orders-app
    stateferry inspect state/orders-app/0_0/rocksdb/orders --digest --json
    """

    def work() -> None:
        from migrate.cli.show import show_inspect
        from migrate.inspection import inspect as look

        report = look(path, digest=digest)
        click.echo(report.model_dump_json(indent=2)) if as_json else show_inspect(report)

    finish(work)


for command in (snapshot, cutover, rollback, finalize, abandon):
    main.add_command(command)
