"""`python -m tests.kill`: kill migrations, count the kills, and fail where anything did not survive."""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.kill.adapter import kill_adapter
from tests.kill.checks import CheckFailedError
from tests.kill.harness import Goal, Tally, kill_all
from tests.kill.scenarios import SENT_ON_FAILURE, required_events
from tests.kill.zygote import Zygote

LEAST_HITS = 3


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=200, show_default=True, help="Of migrations; of adapters.")
@click.option("--seed", type=int, help="Of what is planned; a random one by default, which is printed.")
@click.option("--only", type=click.Choice(required_events()), metavar="EVENT", help="Kill at this event alone.")
@click.option("--leftovers/--no-leftovers", default=True, show_default=True, help="Look for what was left behind.")
@click.option("--spark", is_flag=True, help="Kill `spark-submit` and all below it instead, at any instant.")
@click.option("--jobs", is_flag=True, help="Kill runs over two processes without Spark instead, at any instant.")
def main(*, kills: int, seed: int | None, only: str | None, leftovers: bool, spark: bool, jobs: bool) -> None:
    """Migrate, kill the migration, resume it, kill that too; then compare with a migration that nobody killed.

    Then as many processors on the lazy adapter, compared with a dict.
    """
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="stateferry-kill-"))
    started = time.monotonic()
    if spark or jobs:
        from tests.kill.on_spark import ON_SPARK, Jobs, SparkSubmit

        goal = Goal(kills, 0, seed, look_for_leftovers=leftovers, scenarios=(ON_SPARK,), has_events=False)
        tally = kill_all(goal, folder, click.echo, SparkSubmit if spark else Jobs)
    else:
        goal = Goal(kills, LEAST_HITS, seed, only, leftovers)
        tally = kill_all(goal, folder, click.echo)
    click.echo(_table(goal, tally))
    wrong = _wrong(goal, tally)
    if not (spark or jobs) and only is None:
        wrong += _kill_adapters(folder, kills)
    click.echo(f"seed {seed}, {time.monotonic() - started:.0f} s")
    if wrong:
        click.echo("\n".join(["", *wrong, f"see {folder}"]), err=True)
        sys.exit(1)
    shutil.rmtree(folder)


def _kill_adapters(folder: Path, kills: int) -> list[str]:
    """What did not hold, over one database and over two."""
    try:
        with Zygote() as zygote:
            for two in (False, True):
                kill_adapter(folder / f"adapter-{two=}", (kills + 1) // 2, zygote, two=two)
    except CheckFailedError as error:
        return [f"FAILED: adapter: {error}"]
    click.echo(f"{(kills + 1) // 2 * 2} kills of processors on the lazy adapter")
    return []


def _table(goal: Goal, tally: Tally) -> str:
    lines = [f"{'killed at':<28} {'hits':>5}"]
    lines += [f"{event:<28} {tally.hits[event]:>5}" for event in goal.events]
    lines += [f"{'some instant':<28} {tally.at_instants:>5}", f"{'kills':<28} {tally.kills:>5}", ""]
    lines += [f"{count:>5} campaigns, {scenario}" for scenario, count in sorted(tally.campaigns.items())]
    lines.append(
        f"not counted: {tally.too_late} kills that came after the end, {tally.not_sent} events that did not come"
    )
    lines.append(f"not killed at, since they are sent on failure only: {', '.join(sorted(SENT_ON_FAILURE))}")
    return "\n".join(lines)


def _wrong(goal: Goal, tally: Tally) -> list[str]:
    wrong = [f"FAILED: {failure}" for failure in tally.failures]
    if (missed := tally.missed(goal)) and not tally.failures:  # which end everything early
        wrong.append(f"FAILED: hit fewer than {goal.hits} times: {', '.join(missed)}")
    if tally.kills < goal.kills and not tally.failures:
        wrong.append(f"FAILED: {tally.kills} kills of {goal.kills}")
    return wrong


if __name__ == "__main__":
    main()
