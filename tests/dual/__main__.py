"""The long form of the state machine: `python -m tests.dual --steps 100000`."""

import time

import click
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.dual.machine import StoreMachine

_STEPS_OF_A_RUN = 40


@click.command()
@click.option("--steps", type=click.IntRange(min=_STEPS_OF_A_RUN), default=100_000, show_default=True)
def main(steps: int) -> None:
    """Exit 1, with the shortest failing case, where the store ever shows what a dict would not."""
    began = time.monotonic()
    runs = settings(
        max_examples=steps // _STEPS_OF_A_RUN,
        stateful_step_count=_STEPS_OF_A_RUN,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(StoreMachine, settings=runs)
    click.echo(f"up to {steps} steps, {time.monotonic() - began:.0f} s: nothing found")


if __name__ == "__main__":
    main()
