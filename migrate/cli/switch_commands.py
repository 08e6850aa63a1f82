"""The verbs of the switch: cutover, rollback, finalize, abandon."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from migrate.batch.stop import Stop
from migrate.cli.command import spec_verb, stopping_on_signals
from migrate.cli.job import accept_rejects_option, fence_option, unverified_option
from migrate.cli.options import current_output
from migrate.errors import InterruptedMigrationError, RefusedError
from migrate.show.output import Output
from migrate.show.plain import visible_message

if TYPE_CHECKING:
    from migrate.model.reports import SwitchReport
    from migrate.spec.spec import Spec


_AGAIN = "run the same command again to remove it"
_yes_option = click.option("--yes", is_flag=True, help="Remove them without a question, which is asked on a terminal.")


def _confirm(removed_by: Callable[[Spec], str], spec: Spec, output: Output) -> None:
    """Ask on a terminal before anything is removed. Raises RefusedError unless the answer is yes."""
    question = removed_by(spec) if output.asks else ""
    try:
        if not question or click.confirm(f"{visible_message(question)} Continue?"):
            return
    except click.Abort as abort:
        click.echo()
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise InterruptedMigrationError("interrupted: nothing was removed", hint=_AGAIN) from abort
    raise RefusedError("nothing was removed: that was not confirmed", hint="answer y, or give --yes, to remove it")


def switch_and_show(
    name: Literal["cutover", "rollback", "finalize"], spec: Spec, output: Output, **options: bool | int | None
) -> None:
    """Run the verb and show its report. The first signal does not end it: it takes a second."""
    import migrate
    from migrate.show.text.progress import details
    from migrate.show.text.report_text import show_switch

    with stopping_on_signals(Stop(), patience=None):
        switch: Callable[..., SwitchReport] = getattr(migrate, name)
        report = switch(spec, on_event=details(output), **options)
    output.show(report, show_switch)


@click.command()
@spec_verb
@unverified_option
@accept_rejects_option
@fence_option
@click.option("--no-checksums", is_flag=True, help="Do not read the new stores' files again, where seconds count more.")
def cutover(spec: Spec, *, no_checksums: bool, **options: bool | int | None) -> None:
    """Put the verified new stores in place of the old ones, which are kept.

    The application must be stopped. The new stores' files are read, and compared with what was verified. If the command
    is interrupted or killed, the same command finishes the switch.

    \b
    stateferry cutover migration.toml
    stateferry cutover migration.toml --accept-rejects 30
    """
    switch_and_show("cutover", spec, current_output(), checksums=not no_checksums, **options)


@click.command()
@spec_verb
@click.option("--discard-new-writes", is_flag=True, help="Roll back even if the new stores have been written to.")
def rollback(spec: Spec, *, discard_new_writes: bool) -> None:
    """Put the old stores back, after a cut-over or an unfinished one.

    The application must be stopped. Where the new stores have changelogs of their own, or records were appended to the
    old ones, its group reads again what it has read since: outputs come twice. --discard-new-writes leaves that out.

    \b
    stateferry rollback migration.toml
    stateferry rollback migration.toml --discard-new-writes
    """
    switch_and_show("rollback", spec, current_output(), discard_new_writes=discard_new_writes)


@click.command()
@spec_verb
@click.option("--accept-mismatch", is_flag=True, help="Finalize even if a verification found a difference.")
@click.option(
    "--moved-away", is_flag=True, help="Finalize even if some new stores are gone: their tasks run elsewhere now."
)
@click.option(
    "--delete-topic", is_flag=True, help="Delete the old stores' changelogs too, where the new ones have their own."
)
@_yes_option
def finalize(spec: Spec, *, yes: bool, delete_topic: bool, **options: bool) -> None:
    """Remove the replaced old stores and the migration's working files.

    A rollback is not possible afterwards. The ledger is kept, and so is an old state directory that was not replaced.
    Refused if the new stores are not in their places. On a terminal it asks first; refused (exit 6) unless confirmed.

    \b
    stateferry finalize migration.toml
    stateferry finalize migration.toml --yes
    stateferry finalize migration.toml --moved-away
    """
    if not yes:
        from migrate.batch.switch.abandon import removed_by_finalize

        _confirm(partial(removed_by_finalize, delete_topic=delete_topic), spec, current_output())
    switch_and_show("finalize", spec, current_output(), delete_topic=delete_topic, **options)


@click.command()
@spec_verb
@_yes_option
def abandon(spec: Spec, *, yes: bool) -> None:
    """Give up a migration that cannot continue, and remove its files.

    Deletes the topics that it has made, and appends the old values to changelogs that it has appended to. Touches no
    other file. Refused if the new stores are in use. On a terminal it asks first; refused (exit 6) unless
    confirmed.

    \b
    stateferry abandon migration.toml
    stateferry abandon migration.toml --yes
    """
    from migrate import abandon as remove_files
    from migrate.batch.switch.abandon import removed_by_abandon
    from migrate.show.text.progress import details
    from migrate.show.text.report_text import show_abandon

    output = current_output()
    if not yes:
        _confirm(removed_by_abandon, spec, output)
    output.show(remove_files(spec, on_event=details(output)), show_abandon)


VERBS = (cutover, rollback, finalize, abandon)
"""In the order of work, as the help lists them."""
