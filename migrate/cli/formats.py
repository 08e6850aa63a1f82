"""`stateferry formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from migrate.cli.errors import finish
from migrate.cli.options import Output, current_output

if TYPE_CHECKING:
    from migrate.format_list import ConversionReport, FormatsReport


@click.command()
def formats() -> None:
    """List the formats that a spec can name, and what each conversion loses.

    Without a function of yours a conversion is compiled to a byte program where there is one, which is fast; with one
    it takes the reference path, record by record.

    \b
    stateferry formats
    stateferry formats --json
    """

    def work() -> None:
        from migrate.format_list import known_formats

        current_output().show(known_formats(), _show)

    finish(work)


def _show(report: FormatsReport, output: Output) -> None:
    from rich.markup import escape

    console = output.console()
    for known in report.formats:
        families = "any" if known.column_families is None else ", ".join(known.column_families)
        own = f"; carried as they are: {', '.join(known.metadata_families)}" if known.metadata_families else ""
        console.print(f"[bold]{known.id}[/bold]")
        for line in (
            f"  {known.summary}",
            f"  column families: {families}{own}",
            f"  carries: {', '.join(('key', 'value', *known.carries))}",
            *(f"  to {each.target}: {_in_words(each)}" for each in known.conversions if each.target != known.id),
        ):
            console.print(escape(line), soft_wrap=True)
    console.print("loses, and what else must be allowed by name: \\[conversion] allow = \\[...]", soft_wrap=True)


def _in_words(conversion: ConversionReport) -> str:
    path = "compiled" if conversion.is_compiled else "reference path"
    lost = ", ".join(name.removeprefix("loss:") for name in conversion.losses) or "nothing"
    allow = ", ".join(f'"{name}"' for name in conversion.must_be_allowed)
    return f"{path}, loses {lost}" + (f", must be allowed: {allow}" if allow else "")
