"""The command and its verbs: common options, help in the order of work, usage errors reported like all others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from migrate.cli.errors import report_usage_error
from migrate.cli.options import add_common_options, read_environment
from migrate.show.output import Output
from migrate.show.streams import prepare_streams

PROGRAM = "stateferry"


def _output_of(arguments: Sequence[str]) -> Output:
    """Of a command line that cannot be parsed."""
    json_log = "--log-format json" in " ".join(arguments).replace("=", " ")
    return Output(as_json="--json" in arguments, debug="--debug" in arguments, json_log=json_log)


class Job(click.Command):
    """A command with the common options, which reports usage errors like all others."""

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **attributes)
        add_common_options(self)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's own
        """Run the command; a command line that cannot be parsed ends like any other error."""
        prepare_streams()
        arguments = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(arguments, **{"prog_name": PROGRAM, **extra, "standalone_mode": False})
        except click.ClickException as error:
            code = report_usage_error(error, _output_of(arguments))
        sys.exit(code)


class Verbs(Job, click.Group):
    """A group whose verbs take the common options, before the verb or after it."""

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **attributes)
        self.sections: dict[str, list[click.Command]] = {}
        """Title in the help to verbs, in the order of work."""

    def add_section(self, title: str, *verbs: click.Command) -> None:
        """Add the verbs of one part of the work."""
        self.sections[title] = [*verbs]
        for verb in verbs:
            add_common_options(verb)
            read_environment(verb)
            self.add_command(verb)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of work."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs under the titles of their sections."""
        widest = max(map(len, self.commands), default=0)
        for title, verbs in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{verb.name:<{widest}}", verb.get_short_help_str(limit=120)) for verb in verbs])
