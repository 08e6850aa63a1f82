"""`plan`: the dry run."""

from __future__ import annotations

import click

from migrate.cli.errors import verb
from migrate.cli.job import changelog_end_option
from migrate.cli.options import current_output, html_option, spec_argument
from migrate.cli.streams import user_output_aside


@click.command()
@spec_argument
@html_option
@click.option("--full", is_flag=True, help="Read and convert every record, not a sample: exact counts.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Records of each store partition to try, spread over its keys.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed is another sample.")
@click.option("--slots", type=click.IntRange(min=1), help="Chunks at a time, to tell the time for. [default: cores]")
@changelog_end_option
@verb
def plan(
    spec: str, *, page: str | None, full: bool, sample: int, seed: int, slots: int | None, ends: tuple[str, ...]
) -> int:
    """Tell what a run would do. Touches nothing: the first thing to run, beside a running application too.

    Exits with 0 for go, 6 where a run would be refused, 3 where it would reject more records than allowed.

    \b
    stateferry plan migration.toml
    stateferry plan migration.toml --html plan.html
    stateferry plan migration.toml --full --slots 8 --json
    """
    from migrate.changelog_ends import parse_changelog_ends
    from migrate.cli.show_plan import counting, show_plan
    from migrate.dry_run.dry_run import plan as look
    from migrate.page.writing import page_path, write_page
    from migrate.spec import load_spec

    output, loaded, known = current_output(), load_spec(spec), parse_changelog_ends(ends)
    file = None if page is None else page_path(page)
    with counting(output) as listener, user_output_aside():
        report = look(loaded, full=full, sample=sample, seed=seed, slots=slots, on_event=listener, changelog_ends=known)
    output.show(report, show_plan)
    if file is not None:
        from migrate.page.dry_run_page import dry_run_page

        write_page(file, dry_run_page(report))
    return report.verdict.exit_code
