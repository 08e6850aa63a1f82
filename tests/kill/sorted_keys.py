"""Runs whose new keys Spark sorts, with the driver killed at any instant, or executors under a driver that goes on."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from formats.partitioners import default_partition
from tests.kill.checks import Checks
from tests.kill.migrations import Migration
from tests.kill.on_spark import SparkSubmit
from tests.kill.peace import in_peace, make_templates
from tests.kill.scenarios import Kind, Scenario
from tests.kill.victim import Order, Outcome
from tests.spark.processes import command_of, session_of
from tests.support import UNKNOWN_TIMESTAMP, make_families, numbered

_RECORDS = numbered(12_000)
_PLACE = "rocksdb/orders"
_NEW = tuple(f"0_{number}/{_PLACE}" for number in range(3))
_MOST_OF_A_RUN = 3
"""Spark gives up a task that has failed four times."""


def _make(base: Path) -> Path:
    """Two tasks."""
    for number in range(2):
        mine = {key: value for key, value in _RECORDS.items() if default_partition(key, 2) == number}
        make_families(base / f"app/0_{number}/{_PLACE}", {"default": mine})
    return base / "app"


def _turned(number: int) -> dict[bytes, bytes]:
    news = {key[::-1]: UNKNOWN_TIMESTAMP + value for key, value in _RECORDS.items()}
    return {key: news[key] for key in sorted(news) if default_partition(key, 3) == number}


SORTED = Scenario(
    Kind(
        name="sorted keys",
        directory="app",
        stores=tuple(f"0_{number}/{_PLACE}" for number in range(2)),
        # Several waves of several ranges: a kill meets one while it is read, sorted, written or committed.
        spec="""
[source]
format = "kafka-streams.key-value"
path = "app"
store = "orders"
[conversion]
function = "tests.kill.conversion:turn_slowly"
allow = ["changelog", "key-change", "unclean-source"]
[run]
chunk_size = "64 KiB"
wave_size = "256 KiB"
[target]
format = "kafka-streams.timestamped-key-value"
partitions = 3
""",
        make=_make,
        records={
            f"0_{number}/{_PLACE}": {"default": {}, "keyValueWithTimestamp": _turned(number)} for number in range(3)
        },
        made=tuple(f"0_{number}/{_PLACE}" for number in range(3)),
    ),
    ("run",),
    publishes=True,
)


class Cluster(SparkSubmit):
    """Runs with executors of their own, which share this machine."""

    master = "local-cluster[2,1,1024]"
    patience = 600.0


class LosingExecutors(Cluster):
    """Kills executors, one after the other, under a driver that nobody kills."""

    def __init__(self, seed: int, seconds: float) -> None:
        """`seconds`: that a run takes in peace."""
        self.kills = 0
        self._random, self._seconds = Random(seed), seconds

    def fulfil(self, order: Order, *, log: Path) -> Outcome:
        """Left alone but for its executors."""
        with self.started(order, log) as process:
            most, ends = self.kills + _MOST_OF_A_RUN, time.monotonic() + self.patience
            while (left := ends - time.monotonic()) > 0:
                try:
                    pause = self._seconds * self._random.uniform(0.1, 0.4) if self.kills < most else left
                    return Outcome(killed=False, code=process.wait(pause))
                except subprocess.TimeoutExpired:
                    self._kill_one(process.pid)
        return Outcome(killed=False, code=-signal.SIGKILL, hung=True)

    def _kill_one(self, leader: int) -> None:
        executors = [pid for pid in session_of(leader) if "CoarseGrainedExecutorBackend" in command_of(pid)]
        if executors:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(executors), signal.SIGKILL)
                self.kills += 1


def kill_executors(kills: int, seed: int, folder: Path) -> int:
    """Migrations whose executors are killed, until so many were. Raises CheckFailedError where one does not survive."""
    (template,) = make_templates(folder / "templates", [SORTED]).values()
    with Cluster() as undisturbed:
        peace = in_peace([SORTED], template, folder / "peace", undisturbed, look_for_leftovers=True)
    victims = LosingExecutors(seed, peace.calm[SORTED].seconds["run"])
    for number in range(kills):
        if victims.kills >= kills:
            break
        migration = Migration(SORTED, template, folder / f"{number}", victims)
        checks = Checks(SORTED, migration.base, look_for_leftovers=True, expected=peace.expected[SORTED.kind])
        migration.perform("run")
        checks.after_end("run")
    return victims.kills
