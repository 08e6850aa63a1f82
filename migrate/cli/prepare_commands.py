"""The verbs that prepare a migration: inspect, formats, init, plan, doctor, snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from migrate.cli.command import spec_verb, verb
from migrate.cli.job import changelog_end_option, check_spark
from migrate.cli.options import complete_formats, current_output, html_option, page_path
from migrate.show.output import user_output_to_stderr, write_out
from migrate.show.plain import printable_toml

if TYPE_CHECKING:
    from migrate.spec.spec import Spec


@click.command()
@click.argument("path", type=click.Path())
@click.option("--digest", is_flag=True, help="Read every record, for exact counts and digests.")
@verb
def inspect(path: str, *, digest: bool) -> None:
    """Describe the stores in a directory.

    PATH is a state directory, a directory inside one, a RocksDB directory or the work_dir of a migration. Prints the
    system that the directory belongs to, its stores and column families, their options, record counts and first
    records. Only reads, and can be used while the application is running.

    \b
    stateferry inspect state/orders-app
    stateferry inspect state/orders-app/0_0/rocksdb/orders --digest --json
    stateferry inspect stateferry-work
    """
    from migrate.show.text.inspect_text import show_inspect
    from migrate.survey.inspection import inspect as describe

    current_output().show(describe(path, digest=digest), show_inspect)


@click.command()
@verb
def formats() -> None:
    """List the formats, the conversions between them, and what each conversion loses.

    Formats of the same group can be converted to each other. A conversion without a user-defined function is compiled
    to a byte program where possible, which is fast; otherwise it takes the reference path, record by record. `--json`
    lists every pair of formats.

    \b
    stateferry formats
    stateferry formats --json
    """
    from migrate.show.text.inspect_text import show_formats
    from migrate.survey.known_formats import known_formats

    current_output().show(known_formats(), show_formats)


@click.command()
@click.argument("path", type=click.Path())
@click.option("--store", help="The store to migrate, if there are several.")
@click.option(
    "--to",
    required=True,
    metavar="FORMAT",
    shell_complete=complete_formats,
    help="The new store's format; see `stateferry formats`.",
)
@click.option(
    "--from",
    "source_format",
    metavar="FORMAT",
    shell_complete=complete_formats,
    help="The old store's format, if its column families match several.",
)
@click.option(
    "--output", default="migration.toml", show_default=True, help="The file to write, or - for standard output."
)
@click.option("--name", help="The migration's name: lower-case letters, digits and hyphens.")
@click.option(
    "--work-dir", type=click.Path(), help="A directory for plan, ledger and new stores, on the state's file system."
)
@click.option("--target-path", type=click.Path(), help="Publish a complete new state directory there.")
@verb
def init(path: str, *, output: str, **options: Any) -> None:  # noqa: ANN401 - those of `init_spec`
    """Write a commented migration spec for the stores in a directory.

    PATH is the application's state directory, <state.dir>/<application.id>, or a single RocksDB directory. A directory
    above or inside a state directory is accepted if only one application is found there. Changes nothing under PATH,
    and never overwrites a file.

    \b
    stateferry init state/orders-app --store orders --to kafka-streams.timestamped-key-value
    stateferry init state/orders-app --store orders --to kafka-streams.timestamped-key-value --output -
    stateferry init my.db --from rocksdb.raw --to rocksdb.raw --name my-change
    """
    from migrate.show.text.report_text import show_init
    from migrate.survey.init_spec import init_spec

    report, out = init_spec(path, output=None if output == "-" else output, **options), current_output()
    if report.spec is None and not out.as_json:
        write_out(printable_toml(report.text.rstrip("\n")))
    else:
        out.show(report, show_init)


@click.command()
@spec_verb
@html_option
@click.option("--full", is_flag=True, help="Read and convert every record instead of a sample, for exact counts.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    help="Records to convert of each store partition, spread over its keys. [default: all where that takes less than "
    "10 s, else 10,000]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the sample.")
@click.option("--slots", type=click.IntRange(min=1), help="Chunks at a time, for the estimated time. [default: cores]")
@changelog_end_option
def plan(spec: Spec, *, page: str | None, ends: tuple[str, ...], **options: Any) -> int:  # noqa: ANN401
    """Report what a run would do, without changing anything.

    Run it first; the application may be running. Exits with 0 for go, 6 if a run would be refused, 3 if it would
    reject more records than allowed.

    \b
    stateferry plan migration.toml
    stateferry plan migration.toml --html plan.html
    stateferry plan migration.toml --full --slots 8 --json
    """
    from migrate.batch.source.changelog_ends import parse_changelog_ends
    from migrate.dry_run.dry_run import plan as dry_run
    from migrate.show.text.plan_text import show_plan
    from migrate.show.text.progress import counting

    output, file, known = current_output(), page_path(page), parse_changelog_ends(ends)
    with counting(output) as listener, user_output_to_stderr():
        report = dry_run(spec, on_event=listener, changelog_ends=known, **options)
    output.show(report, show_plan)
    if file is not None:
        from migrate.show.page.dry_run_page import dry_run_page
        from migrate.stores.files import write_durably

        write_durably(file, dry_run_page(output.readable(report)).encode())
    return report.verdict.exit_code


@click.command()
@spec_verb
@click.option("--master", default="local[*]", show_default=True, help="The Spark master that a run would use.")
@click.option("--no-spark", is_flag=True, help="Skip the checks that need Spark and a JVM.")
@changelog_end_option
def doctor(spec: Spec, *, master: str, no_spark: bool, ends: tuple[str, ...]) -> int:
    """Check that a run can start: old store, disks, permissions, Java, Spark, executors.

    Leaves nothing behind. Exits with 6 if a check fails; a warning is not a failure.

    \b
    stateferry doctor migration.toml
    stateferry doctor migration.toml --master spark://host:7077 --json
    stateferry doctor migration.toml --no-spark --verbose
    """
    check_spark(on_spark=not no_spark)
    from migrate.batch.preflight.doctor import doctor as check_all
    from migrate.batch.source.changelog_ends import parse_changelog_ends
    from migrate.show.text.plan_text import show_doctor
    from migrate.show.text.progress import start_shown

    output, known = current_output(), parse_changelog_ends(ends)
    with start_shown(output):  # a master that does not answer takes a minute
        report = check_all(spec, master=None if no_spark else master, changelog_ends=known)
    output.show(report, show_doctor)
    return report.exit_code


@click.command()
@spec_verb
def snapshot(spec: Spec) -> None:
    """Take the snapshot that a later `run` converts while the application is running again.

    Needs [run] source = "snapshot". The application must be stopped cleanly while the snapshot is taken, which takes
    seconds.

    \b
    stateferry snapshot migration.toml
    """
    from migrate import snapshot as take
    from migrate.show.text.progress import details
    from migrate.show.text.report_text import show_snapshot

    output = current_output()
    output.show(take(spec, on_event=details(output)), show_snapshot)


@click.command()
@spec_verb
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="How many processes read.")
def restore(spec: Spec, *, jobs: int) -> None:
    """Make the old store from its changelog alone, in the work_dir.

    Needs [source] changelog = true. The application must be stopped. A command that was killed is continued by the same
    command. `run` does the same where it was not done; after `restore`, `plan` shows what `run` will do.

    \b
    stateferry restore migration.toml
    """
    from migrate import restore as make
    from migrate.show.text.plan_text import show_restore
    from migrate.show.text.progress import details

    output = current_output()
    output.show(make(spec, jobs=jobs, on_event=details(output)), show_restore)


VERBS = (inspect, formats, init, plan, doctor, snapshot, restore)
"""In the order of work, as the help lists them."""
