"""`report`: what was done, after the run, as text, as JSON and as a page."""

from __future__ import annotations

import click

from migrate.cli.errors import verb
from migrate.cli.options import current_output, html_option, spec_argument


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
    from migrate.cli.show_history import show_history
    from migrate.page.writing import page_path, write_page
    from migrate.reporting import report as look
    from migrate.spec import load_spec

    file = None if page is None else page_path(page)
    history = look(load_spec(spec))
    if file is not None:
        from migrate.page.run_page import run_page

        write_page(file, run_page(history))
    current_output().show(history, show_history)
