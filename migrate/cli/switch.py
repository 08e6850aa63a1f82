"""The verbs around the switch: snapshot, cutover, rollback, finalize, abandon."""

from __future__ import annotations

from typing import Literal

import click

from migrate.cli.errors import finish

_spec = click.argument("spec", type=click.Path())
_json = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")


def switch_and_show(
    verb: Literal["cutover", "rollback", "finalize"], spec_path: str, *, as_json: bool, discard: bool = False
) -> None:
    """Do it, whatever signals come: it takes a second, and a kill is mended by the same command."""
    from migrate import cutover, finalize, rollback
    from migrate.cli.show import show_switch
    from migrate.interruption import Stop, stopping_on_signals
    from migrate.spec import load_spec

    spec = load_spec(spec_path)
    with stopping_on_signals(Stop(), patience=None):
        if verb == "rollback":
            report = rollback(spec, discard_new_writes=discard)
        else:
            report = cutover(spec) if verb == "cutover" else finalize(spec)
    click.echo(report.model_dump_json(indent=2)) if as_json else show_switch(report)


@click.command()
@_spec
@_json
def cutover(spec: str, *, as_json: bool) -> None:
    """Put the verified new stores in the old ones' places, all of them; the old ones are kept.

    The application must be stopped. Killed half-way, the same command finishes it.

    \b
    stateferry cutover migration.toml
    """
    finish(lambda: switch_and_show("cutover", spec, as_json=as_json))


@click.command()
@_spec
@click.option("--discard-new-writes", is_flag=True, help="Even where the new stores were written to since.")
@_json
def rollback(spec: str, *, discard_new_writes: bool, as_json: bool) -> None:
    """Put the old stores back, after a cut-over or in the middle of one.

    \b
    stateferry rollback migration.toml
    """
    finish(lambda: switch_and_show("rollback", spec, as_json=as_json, discard=discard_new_writes))


@click.command()
@_spec
@_json
def finalize(spec: str, *, as_json: bool) -> None:
    """Give up the way back: remove the old stores and all that the new ones were made from. The ledger stays.

    \b
    stateferry finalize migration.toml
    """
    finish(lambda: switch_and_show("finalize", spec, as_json=as_json))


@click.command()
@_spec
@_json
def abandon(spec: str, *, as_json: bool) -> None:
    """Give up a migration that cannot go on: remove our files. The application's are not touched.

    \b
    stateferry abandon migration.toml
    """

    def work() -> None:
        from migrate import abandon as give_up
        from migrate.cli.show import show_abandon
        from migrate.spec import load_spec

        report = give_up(load_spec(spec))
        click.echo(report.model_dump_json(indent=2)) if as_json else show_abandon(report)

    finish(work)


@click.command()
@_spec
@_json
def snapshot(spec: str, *, as_json: bool) -> None:
    """Take the snapshot that `run` converts while the application goes on: [run] source = "snapshot".

    The application must be stopped, cleanly, for the seconds that it takes.

    \b
    stateferry snapshot migration.toml
    """

    def work() -> None:
        from migrate import snapshot as take
        from migrate.cli.show import show_snapshot
        from migrate.spec import load_spec

        report = take(load_spec(spec))
        click.echo(report.model_dump_json(indent=2)) if as_json else show_snapshot(report)

    finish(work)
