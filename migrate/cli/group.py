"""The command and its verbs: common options for each, help in the order of work, mistakes said like everything else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from migrate.cli.errors import tell_usage_error
from migrate.cli.options import add_common_options
from migrate.cli.output import Output

PROGRAM = "stateferry"
SECTIONS: dict[str, tuple[str, ...]] = {
    "Before": ("inspect", "formats", "init", "plan", "doctor", "snapshot"),
    "The migration": ("run", "status", "verify", "report", "history"),
    "The switch": ("cutover", "rollback", "finalize", "abandon"),
}
"""In the order of work."""
_OTHER = "More"


class Job(click.Command):
    """A command of its own: with the common options, and mistakes said like everything else."""

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **attributes)
        add_common_options(self)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's own
        """Run; a command line that is not understood ends like any other error."""
        arguments = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(arguments, **{"prog_name": PROGRAM, **extra, "standalone_mode": False})
        except click.ClickException as error:
            code = tell_usage_error(error, Output(as_json="--json" in arguments, debug="--debug" in arguments))
        sys.exit(code)


class Verbs(Job, click.Group):
    """Every verb takes the common options, before its name or after it."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """With the common options that it has not declared itself."""
        add_common_options(cmd)
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of work."""
        return [name for names in self.sections.values() for name in names]

    @property
    def sections(self) -> dict[str, list[str]]:
        """The names of the verbs that there are, in the order of work."""
        found = {title: [name for name in names if name in self.commands] for title, names in SECTIONS.items()}
        known = {name for names in found.values() for name in names}
        found[_OTHER] = sorted(self.commands.keys() - known)
        return {title: names for title, names in found.items() if names}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Under their sections."""
        widest = max(map(len, self.commands), default=0)
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(f"{name:<{widest}}", self.commands[name].get_short_help_str(limit=120)) for name in names]
                formatter.write_dl(rows)
