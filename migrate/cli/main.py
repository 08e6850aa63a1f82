"""The command and its verbs, whose modules are imported only when they run: `--help` answers at once."""

from __future__ import annotations

import click

from migrate.cli.command import PROGRAM, Verbs
from migrate.cli.prepare_commands import doctor, formats, init, inspect, plan, snapshot
from migrate.cli.query_commands import get, serve
from migrate.cli.run_commands import catch_up, rejects, replay, report, run, status, verify
from migrate.cli.switch_commands import abandon, cutover, finalize, rollback
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


main.add_section("Prepare", inspect, formats, init, plan, doctor, snapshot)
main.add_section("Migrate", run, status, verify, report, rejects, replay, catch_up)
main.add_section("Query", get, serve)
main.add_section("Switch", cutover, rollback, finalize, abandon)
