"""What `stateferry run` and the Spark job share: their options and the run itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from migrate.batch.stop import Stop
from migrate.cli.command import Job, exit_code_of, stopping_on_signals
from migrate.cli.options import current_output
from migrate.errors import MissingPackageError
from migrate.show.output import Output, user_output_to_stderr

if TYPE_CHECKING:
    from migrate.model.events import Listener
    from migrate.spec.spec import Spec

F = TypeVar("F", bound=Callable[..., object])

metrics_option = click.option(
    "--metrics-file",
    "metrics_path",
    type=click.Path(dir_okay=False),
    help="Write Prometheus metrics there, for node_exporter's textfile collector (*.prom).",
)
changelog_end_option = click.option(
    "--changelog-end",
    "ends",
    multiple=True,
    metavar="TOPIC-PARTITION=N",
    help="Confirm that a consumer (read_committed) receives nothing from offset N on. Can be repeated.",
)
unverified_option = click.option(
    "--unverified", is_flag=True, help="Let new stores go live without a successful verification."
)
fence_option = click.option(
    "--fence", is_flag=True, help="End the transactions that dead instances of this host left open in the changelogs."
)
accept_rejects_option = click.option(
    "--accept-rejects",
    type=click.IntRange(min=0),
    metavar="N",
    help="Let new stores go live without up to N records that could not be converted.",
)


def replay_options(command: F) -> F:
    """Add the options of `replay`, which are parameters of `run_and_show`."""
    for option in (changelog_end_option, metrics_option, accept_rejects_option):
        command = option(command)
    return command


def run_options(command: F) -> F:
    """Add the options of `run` and the Spark job, which are parameters of `run_and_show`."""
    return unverified_option(fence_option(replay_options(command)))


def run_and_show(
    spec: Spec,
    *,
    master: str | None = None,
    on_spark: bool,
    output: Output,
    jobs: int = 1,
    unverified: bool = False,
    fence: bool = False,
    accept_rejects: int | None,
    metrics_path: str | None,
    ends: Sequence[str],
    and_cutover: bool = False,
    replays: bool = False,
    table: str | None = None,
    version: int | None = None,
) -> None:
    """Run a spec, replay its rejects, or import a version of a table, with progress on standard error, and print the
    report.

    `and_cutover`: the cut-over follows, whose report is the one JSON document.
    """
    check_spark(on_spark=on_spark)
    from migrate.batch.chunk.executor import here, spark
    from migrate.batch.context import Context
    from migrate.batch.importing import pin_table
    from migrate.batch.ledger.gates import Acceptance
    from migrate.batch.replay import replay_with
    from migrate.batch.run import run_with
    from migrate.batch.source.changelog_ends import parse_changelog_ends
    from migrate.batch.switch.locked_migration import check_in_place
    from migrate.model.events import each_of
    from migrate.show.text.progress import progress
    from migrate.show.text.report_text import show_run

    changelog_ends = parse_changelog_ends(ends)
    if and_cutover:
        check_in_place(spec, "cutover")
    stop = Stop()
    with stopping_on_signals(stop), progress(output) as shown, _metrics(metrics_path, spec.name) as measured:
        opener = spark(master) if on_spark else here(jobs)
        listener = each_of(measured, shown)
        with user_output_to_stderr():
            context = Context(
                spec,
                listener,
                acceptance=Acceptance(unverified, accept_rejects),
                stop=stop,
                changelog_ends=changelog_ends,
                fence=fence,
                jobs=jobs,
            )
            if table is not None:
                pin_table(Context(spec, listener, stop=stop), table, version)
            work = replay_with if replays else partial(run_with, is_cut_over_next=and_cutover)
            report = work(opener, context)
    if not (and_cutover and output.as_json):
        output.show(report, show_run)


def check_spark(*, on_spark: bool, is_only_way: bool = False) -> None:
    """Raises ModuleNotFoundError where Spark is missing: its extra brings what else may be missing.

    MissingPackageError, with `is_only_way`: the verb cannot work without Spark.
    """
    if on_spark and find_spec("pyspark") is None:
        if is_only_way:
            raise MissingPackageError("the package pyspark is not installed", hint="pip install 'stateferry[spark]'")
        raise ModuleNotFoundError(name="pyspark")


def _metrics(path: str | None, name: str) -> AbstractContextManager[Listener]:
    if path is None:
        return nullcontext(lambda _: None)
    from migrate.show.prometheus import metrics_file

    return metrics_file(Path(path), name)


@click.command(cls=Job)
@click.option("--spec", "spec_path", required=True, type=click.Path(), help="The migration spec, a TOML file.")
@click.option("--replay", "replays", is_flag=True, help="Go on with a fixed function, like stateferry replay.")
@run_options
def main(spec_path: str, **options: Any) -> None:  # noqa: ANN401 - those of `run_and_show`
    """Run a migration on Spark. An interrupted or killed run is resumed by the same command.

    \b
    spark-submit jobs/migrate_job.py --spec migration.toml
    spark-submit --master spark://host:7077 jobs/migrate_job.py --spec migration.toml
    """
    output = current_output()

    def work() -> None:
        from migrate.spec.spec import load_spec

        run_and_show(load_spec(spec_path), on_spark=True, output=output, **options)

    sys.exit(exit_code_of(work, output))
