"""`stateferry inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from migrate.cli.errors import verb
from migrate.cli.job import changelog_end_option
from migrate.cli.options import current_output, html_option, spec_argument
from migrate.model.units import plural
from migrate.show.output import Output
from migrate.show.streams import say, user_output_aside

if TYPE_CHECKING:
    from migrate.survey.init.write_spec import InitReport


@click.command()
@click.argument("path", type=click.Path())
@click.option("--digest", is_flag=True, help="Read every record: exact counts and record digests.")
@verb
def inspect(path: str, *, digest: bool) -> None:
    """Name what lies in a directory, without touching it.

    PATH is a state directory, a part of one, a RocksDB directory, or a work_dir of ours. Shows whose it is, the stores,
    column families, options, counts and the first records; works beside a running application.

    \b
    stateferry inspect state/orders-app
    stateferry inspect state/orders-app/0_0/rocksdb/orders --digest --json
    stateferry inspect stateferry-work
    """
    from migrate.show.text.inspect import show_inspect
    from migrate.survey.inspection import inspect as look

    current_output().show(look(path, digest=digest), show_inspect)


@click.command()
@verb
def formats() -> None:
    """List the formats that a spec can name, which of them become which, and what is lost.

    Formats of one group become each other. Without a function of yours a conversion is compiled to a byte program where
    there is one, which is fast; with one it takes the reference path, record by record. `--json` has every pair.

    \b
    stateferry formats
    stateferry formats --json
    """
    from migrate.show.text.formats import show_formats
    from migrate.survey.known_formats import known_formats

    current_output().show(known_formats(), show_formats)


@click.command()
@click.argument("path", type=click.Path())
@click.option("--store", help="The store to migrate, where there are several.")
@click.option("--to", required=True, metavar="FORMAT", help="The new store's format: see `stateferry formats`.")
@click.option(
    "--from", "source_format", metavar="FORMAT", help="The old store's, where its column families fit several."
)
@click.option("--output", default="migration.toml", show_default=True, help="The file to write; - prints it.")
@click.option("--name", help="The migration's name: lower-case letters, digits and hyphens.")
@click.option("--work-dir", type=click.Path(), help="Where plan, ledger and new stores go: on the state's file system.")
@click.option("--target-path", type=click.Path(), help="Where a complete new state directory is to appear.")
@verb
def init(
    path: str,
    *,
    store: str | None,
    to: str,
    source_format: str | None,
    output: str,
    name: str | None,
    work_dir: str | None,
    target_path: str | None,
) -> None:
    """Write a commented migration spec from what lies in a directory.

    PATH is the application's state directory, <state.dir>/<application.id>, or one RocksDB directory; a directory above
    or inside an application's serves too where it is clear which is meant. Touches nothing there, overwrites nothing.

    \b
    stateferry init state/orders-app --store orders --to kafka-streams.timestamped-key-value
    stateferry init state/orders-app --store orders --to kafka-streams.timestamped-key-value --output -
    stateferry init my.db --from rocksdb.raw --to rocksdb.raw --name my-change
    """
    from migrate.survey.init.write_spec import init_spec

    report = init_spec(
        path,
        to=to,
        store=store,
        source_format=source_format,
        output=None if output == "-" else output,
        name=name,
        work_dir=work_dir,
        target_path=target_path,
    )
    out = current_output()
    if report.spec is None and not out.as_json:
        say(report.text.rstrip("\n"))  # TOML, which escapes whatever others wrote
    else:
        out.show(report, _show)


def _show(report: InitReport, _output: Output) -> list[str]:
    """What the spec that was written is for."""
    what = f"store {report.store} of {report.source}" if report.store else str(report.source)
    partitions = plural(len(report.store_partitions), "store partition")
    return [
        f"found: {what}: about {report.records:,} records in {partitions}",
        f"from:  {report.source_format}",
        f"to:    {report.target_format}",
        *([f"note: {report.note}"] if report.note else []),
        *(f"warning: {warning}" for warning in report.warnings),
        *(f'allow: a run is refused until [conversion] allow names "{name}"' for name in report.must_be_allowed),
        f"wrote: {report.spec}",
        f"next: {report.next_step}",
    ]


@click.command()
@spec_argument
@html_option
@click.option("--full", is_flag=True, help="Read and convert every record, not a sample: exact counts.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Records of each store partition to try, spread over its keys.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed is another sample.")
@click.option("--slots", type=click.IntRange(min=1), help="Chunks at a time, to tell the time for. [default: cores]")
@changelog_end_option
@verb
def plan(
    spec: str, *, page: str | None, full: bool, sample: int, seed: int, slots: int | None, ends: tuple[str, ...]
) -> int:
    """Tell what a run would do. Touches nothing: the first thing to run, beside a running application too.

    Exits with 0 for go, 6 where a run would be refused, 3 where it would reject more records than allowed.

    \b
    stateferry plan migration.toml
    stateferry plan migration.toml --html plan.html
    stateferry plan migration.toml --full --slots 8 --json
    """
    from migrate.batch.source.changelog_ends import parse_changelog_ends
    from migrate.dry_run.dry_run import plan as look
    from migrate.show.page.writing import page_path, write_page
    from migrate.show.text.plan import counting, show_plan
    from migrate.spec.loading import load_spec

    output, loaded, known = current_output(), load_spec(spec), parse_changelog_ends(ends)
    file = None if page is None else page_path(page)
    with counting(output) as listener, user_output_aside():
        report = look(loaded, full=full, sample=sample, seed=seed, slots=slots, on_event=listener, changelog_ends=known)
    output.show(report, show_plan)
    if file is not None:
        from migrate.show.page.dry_run_page import dry_run_page

        write_page(file, dry_run_page(report))
    return report.verdict.exit_code


@click.command()
@spec_argument
@click.option("--master", default="local[*]", show_default=True, help="The Spark master that a run would use.")
@click.option("--no-spark", is_flag=True, help="Leave out what needs Spark, and a JVM.")
@changelog_end_option
@verb
def doctor(spec: str, *, master: str, no_spark: bool, ends: tuple[str, ...]) -> int:
    """Check that a run could start: the old store, disks, rights, Java, Spark and its executors. Leaves nothing behind.

    Exits with 6 where a check failed; warnings are no failure.

    \b
    stateferry doctor migration.toml
    stateferry doctor migration.toml --master spark://host:7077 --json
    stateferry doctor migration.toml --no-spark --verbose
    """
    from migrate.batch.preflight.doctor import doctor as examine
    from migrate.batch.source.changelog_ends import parse_changelog_ends
    from migrate.show.text.checks import show_doctor
    from migrate.spec.loading import load_spec

    known = parse_changelog_ends(ends)
    report = examine(load_spec(spec), master=None if no_spark else master, changelog_ends=known)
    current_output().show(report, show_doctor)
    return report.exit_code


@click.command()
@spec_argument
@verb
def snapshot(spec: str) -> None:
    """Take the snapshot that `run` converts while the application goes on: [run] source = "snapshot".

    The application must be stopped, cleanly, for the seconds that it takes.

    \b
    stateferry snapshot migration.toml
    """
    from migrate import snapshot as take
    from migrate.show.text.progress import details
    from migrate.show.text.reports import show_snapshot
    from migrate.spec.loading import load_spec

    output = current_output()
    output.show(take(load_spec(spec), on_event=details(output)), show_snapshot)
