"""`python -m tests.live.faust`: kill migrations of Faust's tables, and fail where one did not survive."""

import tempfile
import time
from pathlib import Path

import click

from tests.broker.broker import running_broker
from tests.live.faust.kills import kill_changelogs


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--seed", type=int, help="Of what is planned; a random one by default, which is printed.")
def main(*, kills: int, seed: int | None) -> None:
    """Migrate a table and its changelog, kill that, run it again; compare topic, table and the application."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder)) as broker:
        counted = kill_changelogs(broker.bootstrap, Path(folder) / "campaigns", kills, seed, click.echo)
    for name, number in sorted(counted.items()):
        click.echo(f"{name:<30} {number:>5}")


if __name__ == "__main__":
    main()
