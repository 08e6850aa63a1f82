"""`doctor`: the ground, checked before anything starts."""

from __future__ import annotations

import click

from migrate.cli.errors import verb
from migrate.cli.job import changelog_end_option
from migrate.cli.options import current_output, spec_argument


@click.command()
@spec_argument
@click.option("--master", default="local[*]", show_default=True, help="The Spark master that a run would use.")
@click.option("--no-spark", is_flag=True, help="Leave out what needs Spark, and a JVM.")
@changelog_end_option
@verb
def doctor(spec: str, *, master: str, no_spark: bool, ends: tuple[str, ...]) -> int:
    """Check that a run could start: the old store, disks, rights, Java, Spark and its executors. Leaves nothing behind.

    Exits with 6 where a check failed; warnings are no failure.

    \b
    stateferry doctor migration.toml
    stateferry doctor migration.toml --master spark://host:7077 --json
    stateferry doctor migration.toml --no-spark --verbose
    """
    from migrate.changelog_ends import parse_changelog_ends
    from migrate.cli.show_checks import show_doctor
    from migrate.doctoring import doctor as examine
    from migrate.spec import load_spec

    known = parse_changelog_ends(ends)
    report = examine(load_spec(spec), master=None if no_spark else master, changelog_ends=known)
    current_output().show(report, show_doctor)
    return report.exit_code
