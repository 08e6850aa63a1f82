"""`stateferry init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from migrate.cli.errors import verb
from migrate.cli.options import current_output
from migrate.cli.output import Output
from migrate.cli.streams import say
from migrate.words import plural

if TYPE_CHECKING:
    from migrate.initializing import InitReport


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
    from migrate.initializing import init_spec

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
