"""`python -m tests.batch.changelog.lost_writer TASK METHOD`: an attempt at a task that pauses before a writer's method.

It prints the error that ends it once it goes on.
"""

import os
import pickle
import signal
import sys
from pathlib import Path

from migrate.batch.chunk.write_changelog import produce
from migrate.errors import ChangelogFailedError
from migrate.kafka.writer import Writer


def main(task: str, method: str) -> None:
    """Carry out the task; what was written up to the pause is at the broker."""
    go_on = getattr(Writer, method)

    def pause(writer: Writer) -> object:
        if method == "finish":
            writer._producer.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
        return go_on(writer)

    setattr(Writer, method, pause)
    try:
        produce(pickle.loads(Path(task).read_bytes()))
    except ChangelogFailedError as error:
        sys.stdout.write(error.message)


if __name__ == "__main__":
    main(*sys.argv[1:])
