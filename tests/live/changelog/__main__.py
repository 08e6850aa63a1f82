"""`python -m tests.live.changelog`: kill migrations of changelogs, and fail where one did not survive."""

import click

from tests.kill.at_broker import beginning, options, show
from tests.live.changelog.kills import kill_changelogs


@click.command()
@options(50)
def main(*, kills: int, seed: int | None) -> None:
    """Migrate a store and its changelog, kill that, run it again; compare topic, store and the old application."""
    with beginning(seed) as (bootstrap, folder, known):
        show(kill_changelogs(bootstrap, folder, kills, known, click.echo))


if __name__ == "__main__":
    main()
