"""`python -m tests.batch.changelog.catch_up_victim BASE BOOTSTRAP NAME EVENT`: it kills itself at an event."""

import os
import signal
import sys
from pathlib import Path

from migrate import catch_up
from migrate.kafka.connection import Connection
from migrate.model.events import Event
from tests.batch.changelog.support import App


def main(base: str, bootstrap: str, name: str, event: str) -> None:
    """Catch up."""

    def listen(seen: Event) -> None:
        if seen.name == event:
            os.kill(os.getpid(), signal.SIGKILL)

    catch_up(App(name, Path(base), Connection(bootstrap)).spec, on_event=listen)


if __name__ == "__main__":
    main(*sys.argv[1:])
