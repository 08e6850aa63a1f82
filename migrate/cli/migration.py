"""`report`: what was done, after the run, as text, as JSON and as a page."""

from __future__ import annotations

from typing import Any, Literal

import click

from migrate.cli.errors import verb
from migrate.cli.job import run_and_show, run_options
from migrate.cli.options import current_output, html_option, spec_argument
from migrate.cli.switch import switch_and_show
from migrate.show.streams import user_output_aside


@click.command()
@spec_argument
@html_option
@verb
def report(spec: str, *, page: str | None) -> None:
    """Say what was done: each run, each chunk, rejects, verification; from the ledger, also after `finalize`.

    \b
    stateferry report migration.toml
    stateferry report migration.toml --html report.html
    stateferry report migration.toml --json
    """
    from migrate.batch.status.history import report as look
    from migrate.show.page.writing import page_path, write_page
    from migrate.show.text.history import show_history
    from migrate.spec.loading import load_spec

    file = None if page is None else page_path(page)
    history = look(load_spec(spec))
    if file is not None:
        from migrate.show.page.run_page import run_page

        write_page(file, run_page(history))
    current_output().show(history, show_history)


_master = click.option("--master", default="local[*]", show_default=True, help="The Spark master to run on.")
_no_spark = click.option("--no-spark", is_flag=True, help="Work in this process, one chunk at a time, without a JVM.")


@click.command()
@spec_argument
@_master
@_no_spark
@click.option("--cutover", "and_cutover", is_flag=True, help="Then put the new stores in the old ones' places.")
@run_options
@verb
def run(spec: str, master: str, *, no_spark: bool, and_cutover: bool, **options: Any) -> None:  # noqa: ANN401
    """Migrate: plan if new, rewrite what is missing, assemble, verify, publish.

    Killed at any instant, the same command goes on where it stopped.

    \b
    stateferry run migration.toml
    stateferry run migration.toml --master 'local[4]'
    stateferry run migration.toml --no-spark --cutover
    """
    output = current_output()
    show = not (and_cutover and output.as_json)  # one report is one JSON document: that of the last step
    run_and_show(spec, master, on_spark=not no_spark, output=output, show=show, **options)
    if and_cutover:
        accepted = {name: options[name] for name in ("unverified", "accept_rejects")}
        switch_and_show("cutover", spec, output, **accepted)


@click.command()
@spec_argument
@click.option("--watch", is_flag=True, help="Follow a run of another process until it has ended.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two looks of --watch.",
)
@verb
def status(spec: str, *, watch: bool, interval: float) -> None:
    """Say where a migration stands, from its ledger alone.

    With --watch and --json: one JSON document on a line for each look.

    \b
    stateferry status migration.toml
    stateferry status migration.toml --json
    stateferry status migration.toml --watch
    """
    from migrate.spec.loading import load_spec

    loaded, output = load_spec(spec), current_output()
    if watch:
        from migrate.show.text.watch import follow

        follow(loaded, interval, output)
    else:
        from migrate.batch.status.current import status as look
        from migrate.show.text.reports import show_status

        output.show(look(loaded), show_status)


@click.command()
@spec_argument
@click.option(
    "--mode", type=click.Choice(["full", "digest"]), default="full", show_default=True, help="How to compare."
)
@_master
@_no_spark
@verb
def verify(spec: str, *, mode: Literal["full", "digest"], master: str, no_spark: bool) -> None:
    """Compare the new stores, from disk, with what the old ones convert to.

    `full` converts the old records again and compares all of them; `digest` compares with the receipts of the run.
    What comes of it goes to the ledger: a difference holds back publishing, cutover and finalize.

    \b
    stateferry verify migration.toml
    stateferry verify migration.toml --mode digest --no-spark
    """
    from migrate.batch.steps.verify_stores import verify as check
    from migrate.batch.stop import Stop
    from migrate.cli.signals import stopping_on_signals
    from migrate.show.text.progress import progress
    from migrate.show.text.reports import show_verify
    from migrate.spec.loading import load_spec

    output, loaded, stop = current_output(), load_spec(spec), Stop()
    with stopping_on_signals(stop), progress(output) as listener, user_output_aside():
        report = check(loaded, mode=mode, master=None if no_spark else master, on_event=listener, stop=stop)
    output.show(report, show_verify)
