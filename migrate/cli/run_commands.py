"""The verbs of a migration at work: run, status, verify, report, rejects, replay, catch-up, sweep."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from migrate.batch.stop import Stop
from migrate.cli.command import spec_verb, stopping_on_signals, verb, without_garbage_collection
from migrate.cli.job import check_spark, fence_option, replay_options, run_and_show, run_options
from migrate.cli.options import current_output, html_option, page_path
from migrate.cli.switch_commands import switch_and_show
from migrate.errors import ExitCode, SpecError
from migrate.model.packages import claim
from migrate.show.output import Output, stop_writing, user_output_to_stderr

if TYPE_CHECKING:
    from migrate.spec.spec import Spec


_MOST_OF_A_CORE = 0.1
"""The share of one core that reading a very long ledger may take: it is then read less often."""


@click.command()
@spec_verb
@html_option
@without_garbage_collection()
def report(spec: Spec, *, page: str | None) -> None:
    """Report what was done: runs, chunks, rejects, verification.

    Reads the ledger alone, so that it also works after `finalize`.

    \b
    stateferry report migration.toml
    stateferry report migration.toml --html report.html
    stateferry report migration.toml --json
    """
    from migrate.batch.status.history import report as read_history
    from migrate.show.text.report_text import show_history

    output, file = current_output(), page_path(page)
    history = read_history(spec)
    if file is not None:
        from migrate.show.page.run_page import run_page
        from migrate.stores.files import write_durably

        write_durably(file, run_page(output.readable(history)).encode())
    output.show(history, show_history)


def _without_spark(*, no_spark: bool, jobs: int | None) -> int:
    """In how many processes to run without Spark; 0: on Spark. Raises SpecError for a master too.

    Where the command line says one of the three, the environment says none.
    """
    context = click.get_current_context()
    sources = {name: context.get_parameter_source(name) for name in ("master", "no_spark", "jobs")}
    is_typed = ParameterSource.COMMANDLINE in sources.values()
    first = ParameterSource.COMMANDLINE if is_typed else ParameterSource.ENVIRONMENT
    given = {name for name, source in sources.items() if source is first}
    if jobs is None or "jobs" not in given:
        return int(no_spark and "no_spark" in given)
    if "master" in given:
        raise SpecError("--jobs is for a run without Spark, and --master for one on Spark", hint="give one of them")
    return jobs


def _where_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options on where to run; `command` gets `on_spark`, `master` (None: here) and `jobs` (0: on Spark)."""

    @click.option("--master", default="local[*]", show_default=True, help="The Spark master to run on.")
    @click.option("--no-spark", is_flag=True, help="Run in this process, one chunk at a time, without a JVM.")
    @click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run in N processes of this machine, without Spark and Java; in threads where all is done in native code.",
    )
    @wraps(command)
    def placed(spec: Spec, *, master: str, no_spark: bool, jobs: int | None, **options: object) -> None:
        here = _without_spark(no_spark=no_spark, jobs=jobs)
        command(spec, on_spark=not here, master=None if here else master, jobs=here, **options)

    return placed


@click.command()
@spec_verb
@_where_options
@click.option("--cutover", "and_cutover", is_flag=True, help="Afterwards, put the new stores in place of the old ones.")
@run_options
def run(spec: Spec, *, and_cutover: bool, **options: Any) -> None:  # noqa: ANN401 - those of `run_and_show`
    """Run a migration: plan, rewrite, assemble, verify and publish.

    If it is interrupted or killed, the same command continues where it stopped.

    \b
    stateferry run migration.toml
    stateferry run migration.toml --master 'local[4]'
    stateferry run migration.toml --jobs 4 --cutover
    """
    output = current_output()
    run_and_show(spec, output=output, and_cutover=and_cutover, **options)
    if and_cutover:
        accepted = {name: options[name] for name in ("unverified", "accept_rejects")}
        switch_and_show("cutover", spec, output, checksums=False, **accepted)  # it was verified just now


@click.command("import")
@spec_verb
@click.option("--from", "table", required=True, metavar="TABLE", help="The directory of a Delta table.")
@click.option("--version", type=click.IntRange(min=0), help="The version of the table. [default: the newest]")
@click.option("--master", default="local[*]", show_default=True, help="The Spark master to sort on.")
@run_options
def import_(spec: Spec, **options: Any) -> None:  # noqa: ANN401 - those of `run_and_show`
    """Make a new store from the rows of a Delta table: check them, sort them, write, verify and publish.

    The spec has no [source]; [target] has path, store, format, partitions and subtopology. The columns are those in
    which `export` writes a store of the format. A command that was killed is continued by the same command, or by
    `run`: the table's version stays the same.

    \b
    stateferry import new-store.toml --from tables/orders
    stateferry import new-store.toml --from tables/orders --version 3 --master 'local[4]'
    """
    run_and_show(spec, on_spark=True, output=current_output(), **options)


@click.command()
@spec_verb
def rejects(spec: Spec) -> None:
    """Show the records that could not be converted, by reason, and where the function fails.

    Reads the ledger alone, during a run and after it. `replay` goes on with a fixed function.

    \b
    stateferry rejects migration.toml
    stateferry rejects migration.toml --json
    """
    from migrate.batch.status.reject_reasons import rejects as read_rejects
    from migrate.show.text.report_text import show_rejects

    current_output().show(read_rejects(spec), show_rejects)


@click.command()
@spec_verb
@_where_options
@replay_options
def replay(spec: Spec, **options: Any) -> None:  # noqa: ANN401 - those of `run_and_show`
    """Go on with a fixed function: rewrite the chunks that lack rejected records.

    Nothing but the function may have changed since the run. The other chunks stay as they are; everything is verified
    in full, whatever [run] verify says. Works until the new stores are in use.

    \b
    stateferry rejects migration.toml
    stateferry replay migration.toml
    """
    run_and_show(spec, output=current_output(), replays=True, **options)


@click.command()
@spec_verb
@click.option("--watch", is_flag=True, help="Follow the run of another process until it ends.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two updates of --watch.",
)
def status(spec: Spec, *, watch: bool, interval: float) -> None:
    """Show the state of a migration.

    Reads the ledger alone. With --watch and --json, every update is one JSON document on a line.

    \b
    stateferry status migration.toml
    stateferry status migration.toml --json
    stateferry status migration.toml --watch
    """
    output = current_output()
    if watch:
        _follow(spec, interval, output)
    else:
        from migrate.batch.status.status import status as read_status
        from migrate.show.text.report_text import show_status

        with without_garbage_collection():
            output.show(read_status(spec), show_status)


def _follow(spec: Spec, interval: float, output: Output) -> None:
    """Show the state every `interval` seconds, until the run ends or the user stops; the run itself is not affected."""
    from migrate.batch.status.status import Watch
    from migrate.show.text.progress import watch_display

    watch = Watch(spec)
    try:
        with watch_display(output) as show:
            while True:
                started = time.monotonic()
                report = watch.poll()
                show(report)
                if report.is_over:
                    return
                time.sleep(max(interval, (time.monotonic() - started) / _MOST_OF_A_CORE))
    except KeyboardInterrupt:
        output.say("\nno longer watching; a run that is at work continues")
    except BrokenPipeError:
        stop_writing(sys.stdout)  # the reader of the pipe is gone


@click.command()
@spec_verb
@click.option(
    "--mode", type=click.Choice(["full", "digest"]), default="full", show_default=True, help="How to compare."
)
@_where_options
def verify(spec: Spec, *, mode: Literal["full", "digest"], on_spark: bool, master: str | None, jobs: int) -> None:
    """Compare the new stores on disk with the converted old ones.

    `full` converts the old records again and compares every record; `digest` compares digests with those that the run
    recorded. The result is stored in the ledger: a difference blocks publishing, cutover and finalize.

    \b
    stateferry verify migration.toml
    stateferry verify migration.toml --mode digest --no-spark
    """
    check_spark(on_spark=on_spark)
    from migrate.batch.steps.verify_command import verify as check
    from migrate.show.text.progress import progress
    from migrate.show.text.report_text import show_verify

    output, stop = current_output(), Stop()
    with stopping_on_signals(stop), progress(output) as listener, user_output_to_stderr():
        report = check(spec, mode=mode, master=master, jobs=jobs or 1, on_event=listener, stop=stop)
    output.show(report, show_verify)


@click.command("catch-up")
@spec_verb
@click.option("--master", help="A Spark master to run on; without one, in this process.")
@fence_option
def catch_up(spec: Spec, *, master: str | None, fence: bool) -> None:
    """Apply to the new stores what the application has written since its snapshot.

    Reads the old changelogs to their end, converts the last record of each key, and writes it to the new stores and
    changelogs. May be repeated while the application goes on; the last time, once it has stopped for good, just before
    the cut-over.

    \b
    stateferry catch-up migration.toml
    stateferry catch-up migration.toml --json
    """
    check_spark(on_spark=master is not None)
    from migrate.batch.catch_up import catch_up as work
    from migrate.show.text.progress import progress
    from migrate.show.text.report_text import show_catch_up

    output, stop = current_output(), Stop()
    with stopping_on_signals(stop), progress(output) as listener, user_output_to_stderr():
        report = work(spec, master=master, fence=fence, on_event=listener, stop=stop)
    output.show(report, show_catch_up)


@click.command()
@click.argument("checkpoint")
@click.option("--variable", required=True, metavar="NAME", help="The old state variable.")
@click.option(
    "--marker",
    required=True,
    metavar="MODULE:FUNCTION",
    help="Makes a row of the source of a grouping key: text or bytes, or for a topic Kafka's key and value.",
)
@click.option(
    "--to", required=True, metavar="DIR|TOPIC", help="A source of the query: a directory of files, or a topic."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=100_000, show_default=True, metavar="N", help="The most markers."
)
@click.option(
    "--operator", type=int, metavar="N", help="Which one, where several stateful operators have the variable."
)
@click.option("--master", default="local[*]", show_default=True, help="The Spark master to run on.")
@click.option("--bootstrap", metavar="HOST:PORT", help="The broker of the topic.")
@click.option("--config", type=click.Path(), help="A file of librdkafka's properties for that broker.")
@verb
def sweep(checkpoint: str, **options: Any) -> int:  # noqa: ANN401 - those of `jobs.sweep`
    """Have a streaming query of PySpark move the state of keys that do not arrive by themselves.

    Lists the keys that still have the old state variable, and writes a marker for each into the query's own source.
    Between two runs of the query, again and again: exits with 5 while keys are left, or files of markers that the query
    has not read, with 0 then.

    \b
    stateferry sweep checkpoint --variable count --marker markers:marker --to input
    stateferry sweep checkpoint --variable count --marker markers:marker --to orders --bootstrap broker:9092
    """
    check_spark(on_spark=True, is_only_way=True)
    from migrate.batch.chunk.executor import check_master
    from migrate.show.text.report_text import show_sweep

    check_master(options["master"])
    claim("jobs")
    with user_output_to_stderr():
        report = import_module("jobs.sweep").sweep(checkpoint, **options)
    current_output().show(report, show_sweep)
    return ExitCode.INTERRUPTED if report.old_keys or report.unread else ExitCode.DONE


VERBS = (run, import_, status, verify, report, rejects, replay, catch_up, sweep)
"""In the order of work, as the help lists them."""
