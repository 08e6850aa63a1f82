"""`python -m tests.live.quix`: kill an application with the adapter, and compare its sums to a model."""

import click

from tests.kill.at_broker import beginning, options
from tests.live.quix.campaign import begin, converge, kill, rebuild, take_over


@click.command()
@options(40, "With each guarantee.")
def main(*, kills: int, seed: int | None) -> None:
    """Old code, the adapter under SIGKILL, a process that takes over, new code, rebuilt; and a control."""
    with beginning(seed) as (bootstrap, folder, known):
        for guarantee in ("at-least-once", "exactly-once"):
            world = begin(bootstrap, folder / guarantee, guarantee, known, keys=200 * kills)
            ended = kill(world, "dual", kills, click.echo)
            world.compact()
            take_over(world)
            converge(world)
            rebuild(world, "new")
            click.echo(f"{guarantee}, with the adapter: {dict(ended)}")
            world = begin(bootstrap, folder / f"{guarantee}-control", guarantee, known, keys=200)
            ended = kill(world, "old", kills // 4, click.echo)
            rebuild(world, "old")
            click.echo(f"{guarantee}, without: {dict(ended)}")


if __name__ == "__main__":
    main()
