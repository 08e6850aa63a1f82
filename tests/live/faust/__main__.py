"""`python -m tests.live.faust`: kill migrations of Faust's tables, and fail where one did not survive.

With `--adapter`: kill applications that have the adapter instead, and compare their values to a model.
"""

import tempfile
import time
from pathlib import Path

import click

from tests.broker.broker import running_broker
from tests.live.faust.adapting import World
from tests.live.faust.kills import kill_changelogs


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--seed", type=int, help="Of what is planned; a random one by default, which is printed.")
@click.option("--adapter", is_flag=True, help="Old code, the adapter under SIGKILL, new code; and a control without.")
def main(*, kills: int, seed: int | None, adapter: bool) -> None:
    """Migrate a table and its changelog, kill that, run it again; compare topic, table and the application."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder)) as broker:
        if adapter:
            _kill_adapters(broker.bootstrap, Path(folder), kills, seed)
            return
        counted = kill_changelogs(broker.bootstrap, Path(folder) / "campaigns", kills, seed, click.echo)
    for name, number in sorted(counted.items()):
        click.echo(f"{name:<30} {number:>5}")


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
