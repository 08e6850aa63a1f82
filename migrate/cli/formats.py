"""`stateferry formats`."""

from __future__ import annotations

import click

from migrate.cli.errors import verb
from migrate.cli.options import current_output


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
    from migrate.cli.show_formats import show_formats
    from migrate.format_list import known_formats

    current_output().show(known_formats(), show_formats)
