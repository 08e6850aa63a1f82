"""`stateferry inspect`."""

from __future__ import annotations

import click

from migrate.cli.errors import verb
from migrate.cli.options import current_output


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
    from migrate.cli.show_inspect import show_inspect
    from migrate.inspection import inspect as look

    current_output().show(look(path, digest=digest), show_inspect)
