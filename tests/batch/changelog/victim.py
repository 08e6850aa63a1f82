"""`python -m tests.batch.changelog.victim VERB EVENT BASE BOOTSTRAP NAME WAY`: it kills itself at an event."""

import os
import signal
import sys
from pathlib import Path

import migrate
from migrate.batch.ledger import table as shared_commits
from migrate.batch.plan import new_stores as assembled
from migrate.kafka.connection import Connection
from migrate.model.events import Event
from tests.batch.changelog.support import App


def main(verb: str, event: str, *app: str) -> None:
    """With several parts of each partition and a commit for each."""
    base, bootstrap, name, way = app
    assembled._PART_BYTES = 8 << 10
    shared_commits.PACE = shared_commits.Pace(0.0, 0.0)

    def listen(seen: Event) -> None:
        if seen.name == event:
            os.kill(os.getpid(), signal.SIGKILL)

    getattr(migrate, verb)(App(name, Path(base), Connection(bootstrap), way=way).spec, on_event=listen)


if __name__ == "__main__":
    main(*sys.argv[1:])
