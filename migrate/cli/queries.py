"""The verbs that answer queries: get."""

from __future__ import annotations

import re

import click

from formats import Window
from migrate.cli.errors import verb
from migrate.cli.options import current_output, spec_argument
from migrate.errors import SpecError

_WINDOW = re.compile(r"(\d{1,18})(?:,(\d{1,18}))?")


@click.command()
@spec_argument
@click.argument("key")
@click.option("--store", help="The store, where the spec has several.")
@click.option("--window", metavar="START[,END]", help="One window by its start, or a session by start and end, in ms.")
@click.option("--base64", "is_base64", is_flag=True, help="KEY is the serialized key in base64, whatever the serde.")
@verb
def get(spec: str, key: str, *, store: str | None, window: str | None, is_base64: bool) -> None:
    """Show the record of a key in the old store and in the new one.

    Between them stands what the conversion makes of the old record. KEY is a text, number or JSON, as the serde of
    [conversion.key] says; without one, text or 0x and hex digits. Only reads, at any time of a migration, and beside a
    running application too.

    \b
    stateferry get migration.toml customer-17
    stateferry get migration.toml customer-17 --window 1700000000000
    stateferry get migration.toml 0x637573746f6d65722d3137 --json
    """
    from migrate.queries.compare import SideBySideStores
    from migrate.show.text.get import show_get
    from migrate.spec.loading import load_spec

    report = SideBySideStores(load_spec(spec)).get(store, key, _window(window), is_base64=is_base64)
    current_output().show(report, show_get)


def _window(text: str | None) -> Window | None:
    if text is None:
        return None
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise SpecError(f"--window {text!r} is not START or START,END", hint="for example: --window 1700000000000")
    return Window(int(found[1]), None if found[2] is None else int(found[2]))
