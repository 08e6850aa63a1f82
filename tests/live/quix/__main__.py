"""`python -m tests.live.quix`: kill an application with the adapter, and compare its sums to a model."""

import tempfile
import time
from pathlib import Path

import click

from tests.broker.broker import running_broker
from tests.live.quix.campaign import begin, converge, kill, rebuild, take_over


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=40, show_default=True, help="With each guarantee.")
@click.option("--seed", type=int, help="Of what is planned; a random one by default, which is printed.")
def main(*, kills: int, seed: int | None) -> None:
    """Old code, the adapter under SIGKILL, a process that takes over, new code, rebuilt; and a control."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder) / "broker") as broker:
        for guarantee in ("at-least-once", "exactly-once"):
            world = begin(broker.bootstrap, Path(folder) / guarantee, guarantee, seed, keys=200 * kills)
            ended = kill(world, "dual", kills, click.echo)
            world.compact()
            take_over(world)
            converge(world)
            rebuild(world, "new")
            click.echo(f"{guarantee}, with the adapter: {dict(ended)}")
            world = begin(broker.bootstrap, Path(folder) / f"{guarantee}-control", guarantee, seed, keys=200)
            ended = kill(world, "old", kills // 4, click.echo)
            rebuild(world, "old")
            click.echo(f"{guarantee}, without: {dict(ended)}")


if __name__ == "__main__":
    main()
