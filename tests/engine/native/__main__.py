"""The long form: `python -m tests.engine.native --records 1000000`."""

from __future__ import annotations

import time

import click

from tests.engine.native.agreement import MEMORIES, agree


@click.command()
@click.option("--memory", type=click.Choice([*MEMORIES]), default="guarded", show_default=True)
@click.option("--records", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--stack", type=click.IntRange(min=4), help="The words of the stack, where it is to be short.")
def main(memory: str, records: int, seed: int, stack: int | None) -> None:
    """Exit with a failure, or by a signal, where the loop ever does what the reference does not."""
    began = time.monotonic()
    tally = agree(memory, records, seed, stack_words=stack)
    click.echo(f"{memory}: {tally}, {time.monotonic() - began:.0f} s: nothing found")


if __name__ == "__main__":
    main()
