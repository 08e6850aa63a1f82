"""A store or a file that another process holds."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def another_process(code: str, *arguments: str | Path) -> Iterator[int]:
    """Runs the code on a path, with more arguments, until the block ends; its pid."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
