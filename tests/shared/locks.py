"""A store or a file that another process holds."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import KEY_VALUE, TIMESTAMPED

# Java locks a file as lockf does, RocksDB too: a POSIX record lock of the process.
LOCK_FILE = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
OPEN_STORE = """
import sys
from rocksdict import Options, Rdict
options = Options(raw_mode=True)
options.set_stats_dump_period_sec(0)  # RocksDB writes them to its log from the second second on
database = Rdict(sys.argv[1], options)
print("held", flush=True)
sys.stdin.read()
"""


WRITE_TO_STORE = """
import sys
from rocksdict import Options, Rdict
database = Rdict(sys.argv[1], Options(raw_mode=True))
database[b"flushed"] = b"1"
database.flush(True)
database[b"in memory"] = b"2"
print("held", flush=True)
sys.stdin.read()
"""

CONVERGE = """
import sys, time
from migrate import DualReadStore
formats = dict(source=sys.argv[1], target=sys.argv[2])
paths = [path.partition("=") for path in sys.argv[3:]]
stores = [DualReadStore.open(new, old_path=old or None, **formats) for new, _, old in paths]
print("open", flush=True)
sys.stdin.readline()
for store in stores:
    while not store.is_converged:
        store.converge(300, None)
        time.sleep(0.02)
print("converged", flush=True)
sys.stdin.readline()
for store in stores:
    store.close()
"""


@contextmanager
def another_process(code: str, *arguments: str | Path) -> Iterator[int]:
    """Runs the code on a path, with more arguments, until the block ends; its pid."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid


@contextmanager
def another_adapter(*paths: str) -> Iterator[Callable[[], None]]:
    """Another process with an adapter at each of these stores, `new=old` where there are two; a call converges them."""
    command = [sys.executable, "-c", CONVERGE, KEY_VALUE, TIMESTAMPED, *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asks, told = process.stdin, process.stdout
        assert asks is not None and told is not None
        assert told.readline() == "open\n"

        def converge() -> None:
            print(file=asks, flush=True)
            assert told.readline() == "converged\n"

        yield converge
    assert process.returncode == 0
