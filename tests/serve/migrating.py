"""A service of a migration in a process of its own, clients that judge each of its answers, and the verbs beside them.

The old and the new format of a record differ in its timestamp, so that each answer shows which store it came from.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.serve.processes import free_addresses, served
from tests.support import KEY_VALUE, TIMESTAMPED, make_store

COMMAND = [sys.executable, "-c", "from migrate.cli import main; main()"]
OLD, NEW = frozenset({"old"}), frozenset({"new"})
BOTH = OLD | NEW
SPEC = """name = "orders-v2"
work_dir = "work"
[source]
format = "{source}"
path = "app"
store = "orders"
[target]
format = "{target}"
[conversion]
allow = ["changelog", "unclean-source"]
[conversion.key]
from = {{ serde = "string" }}
to = {{ serde = "string" }}
[conversion.value]
from = {{ serde = "string" }}
to = {{ serde = "string" }}
[run]
chunk_size = "256 KiB"
"""


@dataclass(frozen=True)
class Migration:
    """An application with the store `orders` of two partitions, and the spec of its migration."""

    folder: Path
    records: int
    """Of each partition."""

    @property
    def spec(self) -> Path:
        return self.folder / "spec.toml"

    def make(self) -> Migration:
        self.spec.write_text(SPEC.format(source=KEY_VALUE, target=TIMESTAMPED))
        for partition in (0, 1):
            numbers = range(partition, 2 * self.records, 2)
            own = {key_of(number).encode(): value_of(number).encode() for number in numbers}
            make_store(self.folder / f"app/0_{partition}/rocksdb/orders", own)
        return self

    def verb(self, *words: str) -> None:
        """Run a verb. Raises AssertionError where it fails."""
        verb, *options = words
        done = subprocess.run([*COMMAND, verb, str(self.spec), *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def key_of(number: int) -> str:
    return f"order-{number:06d}"


def value_of(number: int) -> str:
    return f"value {number} " + "x" * (number % 200)


@contextmanager
def serving_process(place: Path, *options: str) -> Iterator[str]:
    """The address of a service that is a process."""
    (address,) = free_addresses(1)
    with served(place, address, *options) as asked:
        yield asked.url
        assert asked.process.poll() is None
        asked.process.terminate()
        assert asked.process.wait(60) in (0, -15)


class Stage:
    """Which stores may answer now, and which ones may have answered since a time."""

    def __init__(self) -> None:
        self._stages: list[frozenset[str]] = [OLD]

    def __len__(self) -> int:
        return len(self._stages)

    def set(self, formats: frozenset[str]) -> None:
        self._stages.append(formats)

    def since(self, length: int) -> frozenset[str]:
        return frozenset().union(*self._stages[length - 1 :])


@dataclass
class Clients:
    """Threads that ask until the block ends, and judge what they are told."""

    url: str
    records: int
    stage: Stage = field(default_factory=Stage)
    answers: Counter[str] = field(default_factory=Counter)
    """By kind of question and outcome."""
    by_format: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest_refusal: float = 0.0
    """Seconds from a first 503 of a client to its next question that was answered."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Clients:
        asks = [self._key, self._key, self._key, self._range, self._pages, self._scan]
        self._threads = [threading.Thread(target=self._run, args=each) for each in enumerate(asks)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait(self, answers: int) -> None:
        """Until so many more keys were answered, and a scan."""
        before = self.answers.copy()
        deadline = time.monotonic() + 60
        while self.answers["key 200"] < before["key 200"] + answers or self.answers["scan"] == before["scan"]:
            assert time.monotonic() < deadline, self.answers
            self._stop.wait(0.02)

    def _run(self, seed: int, ask: Callable[[httpx.Client, int], str]) -> None:
        number, refused_since = seed * 7919, 0.0
        with httpx.Client(timeout=60.0) as client:
            while not self._stop.is_set():
                number = (number * 31 + 17) % (2 * self.records)
                began = time.monotonic()
                try:
                    outcome = ask(client, number)
                except Exception as error:  # noqa: BLE001 - told by the test
                    self.wrong.append(f"{ask.__name__}: {error!r}")
                    return
                if outcome.endswith("503"):
                    refused_since = refused_since or time.monotonic()
                elif refused_since:
                    self.longest_refusal = max(self.longest_refusal, began - refused_since)
                    refused_since = 0.0
                with self._counting:
                    self.answers[outcome] += 1

    def _key(self, client: httpx.Client, number: int) -> str:
        begun = len(self.stage)
        answer = client.get(f"{self.url}/stores/orders/keys/{key_of(number)}")
        if answer.status_code == 200:
            self._judge(answer.json(), number, begun)
        return self._counted("key", answer.status_code, begun)

    def _range(self, client: httpx.Client, number: int) -> str:
        begun = len(self.stage)
        high = number + 40
        answer = client.get(f"{self.url}/stores/orders/range?from={key_of(number)}&to={key_of(high)}")
        if answer.status_code == 200:
            self._judge_all(answer.json()["records"], range(number, min(high + 1, 2 * self.records)), begun)
        return self._counted("range", answer.status_code, begun)

    def _pages(self, client: httpx.Client, number: int) -> str:
        """Two pages; the second one is refused where the store was replaced in between."""
        begun = len(self.stage)
        low = min(number, 2 * self.records - 40)
        url = f"{self.url}/stores/orders/range?from={key_of(low)}&to={key_of(low + 39)}&limit=30"
        answer = client.get(url)
        if answer.status_code != 200:
            return self._counted("pages", answer.status_code, begun)
        first = answer.json()
        answer = client.get(f"{url}&cursor={first['cursor']}")
        if answer.status_code == 200:
            self._judge_all([*first["records"], *answer.json()["records"]], range(low, low + 40), begun)
        if answer.status_code == 409 and len(self.stage) > 1:
            return "pages 409"
        return self._counted("pages", answer.status_code, begun)

    def _scan(self, client: httpx.Client, _number: int) -> str:
        begun = len(self.stage)
        with client.stream("GET", f"{self.url}/stores/orders/all") as answer:
            if answer.status_code != 200:
                return self._counted("scan", answer.status_code, begun)
            *lines, last = [json.loads(line) for line in answer.iter_lines()]
        if last.get("end") is True:
            assert last["records"] == len(lines)
            self._judge_all(lines, range(2 * self.records), begun)
            return "scan"
        for record in lines:
            self._judge(record, int(record["key"].removeprefix("order-")), begun)
        return self._counted("broken scan", last["error"]["status"], begun)

    def _counted(self, kind: str, status: int, begun: int) -> str:
        """The outcome; a refusal is one only while the stores are being switched."""
        if status != 200 and (status != 503 or self.stage.since(max(1, begun - 1)) != BOTH):
            self.wrong.append(f"{kind}: status {status} where {self.stage.since(begun)} answers")
        return f"{kind} {status}"

    def _judge_all(self, records: list[dict[str, object]], numbers: range, begun: int) -> None:
        found = [*records]
        by_partition = [[number for number in numbers if number % 2 == partition] for partition in (0, 1)]
        wanted = [number for own in by_partition for number in own]
        if [record["key"] for record in found] != [key_of(number) for number in wanted]:
            self.wrong.append(f"{len(found)} records where {len(wanted)} are right, or in another order")
        for record, number in zip(found, wanted, strict=False):
            self._judge(record, number, begun)

    def _judge(self, record: dict[str, object], number: int, begun: int) -> None:
        right = {"key": key_of(number), "value": value_of(number)}
        rights = {"old": right, "new": right | {"timestamp": -1}}
        came_from = next((name for name, each in rights.items() if each == record), None)
        if came_from is None or came_from not in (allowed := self.stage.since(begun)):
            self.wrong.append(
                f"{record} of the {came_from} store, where {sorted(allowed) if came_from else right} answer"
            )
            return
        with self._counting:
            self.by_format[came_from] += 1
