"""`python -m tests.batch.changelog.victim BASE BOOTSTRAP WAY EVENT`: a run that kills itself at an event."""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

from migrate import run
from migrate.batch.ledger import table as shared_commits
from migrate.batch.plan import new_stores as assembled
from migrate.model.events import Event
from tests.batch.changelog.support import App


def main(base: str, bootstrap: str, way: str, event: str) -> None:
    """Run, with several parts of each partition and a commit for each."""
    assembled._PART_BYTES = 8 << 10
    shared_commits.PACE = shared_commits.Pace(0.0, 0.0)

    def listen(seen: Event) -> None:
        if seen.name == event:
            os.kill(os.getpid(), signal.SIGKILL)

    run(App(f"killed-{way}", Path(base), SimpleNamespace(bootstrap=bootstrap), way=way).spec, on_event=listen)


if __name__ == "__main__":
    main(*sys.argv[1:])
