"""A driver for which the host's lock is no obstacle, as if it ran on another host; it can wait at an event.

    python -m tests.spark.racing --spec SPEC --marks FOLDER --name a [--at EVENT --times N] [--spark]

At the N-th EVENT it leaves a file `a` in FOLDER and goes on once there is a file `a.go`.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import click

from migrate.batch.chunk.executor import in_process, spark
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.ledger import table as shared_commits
from migrate.batch.run import run_with
from migrate.cli.command import exit_code_of
from migrate.model.events import Event, Listener
from migrate.show.output import Output
from migrate.spec.spec import load_spec

_PATIENCE = 120


@contextmanager
def _no_lock(home: Path) -> Iterator[None]:
    home.mkdir(parents=True, exist_ok=True)
    yield


def _waiting_at(name: str, times: int, mark: Path) -> Listener:
    seen: Counter[str] = Counter()

    def listen(event: Event) -> None:
        seen[event.name] += 1
        if event.name == name and seen[name] == times:
            mark.touch()
            deadline = time.monotonic() + _PATIENCE
            while not mark.with_name(f"{mark.name}.go").exists():
                assert time.monotonic() < deadline, "nobody let it go on"
                time.sleep(0.01)

    return listen


@click.command()
@click.option("--spec", "spec_path", required=True)
@click.option("--marks", required=True, type=click.Path(path_type=Path))
@click.option("--name", required=True)
@click.option("--at", default="")
@click.option("--times", default=1)
@click.option("--spark", "on_spark", is_flag=True)
def main(spec_path: str, marks: Path, name: str, at: str, times: int, *, on_spark: bool) -> None:
    opener = spark(None) if on_spark else in_process

    shared_commits.PACE = shared_commits.Pace(0.0, 0.0)  # a commit for each chunk: more places to wait at

    def work() -> None:
        run_with(opener, Context(load_spec(spec_path), _waiting_at(at, times, marks / name)))

    with patch(f"{command.__module__}.one_run_at_a_time", _no_lock):
        sys.exit(exit_code_of(work, Output(debug=True)))


if __name__ == "__main__":
    main()
