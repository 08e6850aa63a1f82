"""`python -m tests.live.faust`: kill migrations of Faust's tables, and fail where one did not survive.

With `--adapter`: kill applications that have the adapter instead, and compare their values to a model.
"""

from pathlib import Path

import click

from tests.kill.at_broker import beginning, options, show
from tests.live.faust.adapting import World
from tests.live.faust.kills import kill_changelogs


@click.command()
@options(50)
@click.option("--adapter", is_flag=True, help="Old code, the adapter under SIGKILL, new code; and a control without.")
def main(*, kills: int, seed: int | None, adapter: bool) -> None:
    """Migrate a table and its changelog, kill that, run it again; compare topic, table and the application."""
    with beginning(seed) as (bootstrap, folder, known):
        if adapter:
            _kill_adapters(bootstrap, folder, kills, known)
        else:
            show(kill_changelogs(bootstrap, folder, kills, known, click.echo))


def _kill_adapters(bootstrap: str, folder: Path, kills: int, seed: int) -> None:
    world = World(bootstrap, "adapter", folder / "adapter", seed, keys=250 * kills)
    world.take_adapter()
    world.kill(kills, click.echo)
    world.compact()
    world.take_over()
    world.converge()
    world.check_plain_code()
    control = World(bootstrap, "control", folder / "control", seed, keys=500)
    control.kill(max(kills // 4, 1), click.echo)
    control.check_plain_code()


if __name__ == "__main__":
    main()
