"""A process that has imported everything and forks a victim for each order that it reads: a victim starts in no time.

Forking is safe before the first thread only: a lock that another thread held would stay held in the child for ever.
"""

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kill.victim import Order, Outcome, perform

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300.0
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    # Two copies of jemalloc, pyarrow's and deltalake's, start background threads when they are loaded.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "_RJEM_MALLOC_CONF": "background_thread:false",
}


class Zygote:
    """The zygote as its orderer sees it: one victim at a time."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kill.zygote"],
            cwd=ROOT,
            env={**os.environ, **_WITHOUT_THREADS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.communicate()

    def fulfil(self, order: Order, *, log: Path) -> Outcome:
        """Let a victim live and die; `log` gets what it prints."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"order": asdict(order), "log": str(log)}) + "\n")
        self._process.stdin.flush()
        if not (answer := self._process.stdout.readline()):
            raise RuntimeError("the zygote has ended; what it printed says why")
        return Outcome(**json.loads(answer))


def _fulfil(order: Order, *, log: str) -> Outcome:
    """Fork a victim and wait for its end, or end it."""
    dead, alive = os.pipe()  # the victim alone holds the end to write to: it is closed when the victim ends
    pid = os.fork()
    if pid == 0:
        _live_and_die(order, log)
    os.close(alive)
    patience = order.after if order.is_killed_from_outside else PATIENCE_SECONDS
    ended, _, _ = select.select([dead], [], [], patience)
    os.close(dead)
    if not ended:
        os.kill(pid, signal.SIGKILL)  # not waited for yet: the number is still its own
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    killed = code in (-signal.SIGKILL, -signal.SIGALRM)
    return Outcome(killed=killed, code=code, hung=not ended and not order.is_killed_from_outside)


def _live_and_die(order: Order, log: str) -> None:
    code = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = perform(order)
    except BaseException:  # noqa: BLE001 - nothing may get back into the zygote's own loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    """Fulfil orders, a line each, until there are no more."""
    from migrate.batch.ledger.dead_letters import write_dead_letters  # noqa: F401
    from migrate.batch.run import run  # noqa: F401
    from migrate.cli import main  # noqa: F401
    from tests.kill.writer import write_without_end  # noqa: F401
    from tests.shared.conversions import picky  # noqa: F401

    if (tasks := Path("/proc/self/task")).is_dir() and len(threads := list(tasks.iterdir())) > 1:
        names = ", ".join((thread / "comm").read_text(encoding="utf-8").strip() for thread in threads)
        sys.exit(f"the imports have started threads ({names}): name them in _WITHOUT_THREADS, forking is not safe")
    for line in sys.stdin:
        content = json.loads(line)
        print(json.dumps(asdict(_fulfil(Order(**content["order"]), log=content["log"]))), flush=True)


if __name__ == "__main__":
    serve()
