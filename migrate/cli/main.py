"""The command and its verbs, whose modules are imported only when they run: `--help` answers at once."""

from __future__ import annotations

import click

from migrate.cli import prepare_commands, query_commands, run_commands, switch_commands
from migrate.cli.command import PROGRAM, Verbs
from migrate.model.packages import VERSION


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name=PROGRAM)
def main() -> None:
    """Migrate the state stores of stream processors from one format to another.

    SPEC is the migration's TOML file. Each verb has --help, with examples.

    \b
    stateferry run migration.toml
    stateferry status migration.toml --json

    \b
    Exit codes: 0 done, 1 a bug, 2 usage or spec error, 3 failed chunks or too many rejects,
    4 verification found a difference, 5 interrupted (rerun to resume), 6 refused.
    """


main.add_section("Prepare", *prepare_commands.VERBS)
main.add_section("Migrate", *run_commands.VERBS)
main.add_section("Query", *query_commands.VERBS)
main.add_section("Switch", *switch_commands.VERBS)
