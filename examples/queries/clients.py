"""Clients that ask a service without a pause, know what is right, and count what they are told."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

THREADS = 3
_RANGE = 20
_PAUSE_SECONDS = 0.01
BOTH = frozenset({"old", "new"})


@dataclass(frozen=True, slots=True)
class Shop:
    """The records of the demo: in the new format each has a timestamp too, which is unknown."""

    orders: int

    def key(self, number: int) -> str:
        """The key of a record."""
        return f"order-{number:06d}"

    def value(self, number: int) -> dict[str, object]:
        """Its value."""
        return {
            "customer": f"customer-{number * 31 % 997}",
            "items": number % 7 + 1,
            "total": number * 17 % 10_000 / 100,
        }

    def format_of(self, record: dict[str, object], number: int) -> str | None:
        """Which format the answer is of; None: it is wrong."""
        right = {"key": self.key(number), "value": self.value(number)}
        rights = {"old": right, "new": right | {"timestamp": -1}}
        return next((name for name, each in rights.items() if each == record), None)


@dataclass
class Stage:
    """A part of the demo, and what was answered in it."""

    name: str
    allowed: frozenset[str]
    """The formats of the stores that may answer."""
    answers: Counter[str] = field(default_factory=Counter)
    """By format; and `refused`: with 503, and asked again."""
    longest_ms: float = 0.0
    """Until a question was answered, with all that it was asked again."""


class Clients:
    """Threads that ask keys and ranges of keys until the block ends."""

    def __init__(self, url: str, shop: Shop) -> None:
        self._url = f"{url}/stores/orders"
        self._shop = shop
        self.stages = [Stage("before", frozenset({"old"}))]
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._counting = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def enter(self, name: str, allowed: frozenset[str]) -> None:
        """Begin another stage: questions from now on belong to it."""
        self.stages.append(Stage(name, allowed))

    def _run(self, seed: int) -> None:
        rng = random.Random(seed)
        with httpx.Client(timeout=10.0) as client:
            while not self._stop.is_set():
                first = rng.randrange(self._shop.orders - _RANGE)
                try:
                    self._ask(client, range(first, first + (_RANGE if rng.random() < 0.1 else 1)))
                except httpx.HTTPError as error:
                    self.wrong.append(f"no answer: {error!r}")

    def _ask(self, client: httpx.Client, numbers: range) -> None:
        """One question, until it is answered; its answer may be of any stage that it lasted for."""
        begun, started = len(self.stages) - 1, time.perf_counter()
        stage = self.stages[begun]
        first, last = self._shop.key(numbers[0]), self._shop.key(numbers[-1])
        is_key = len(numbers) == 1
        url = f"{self._url}/keys/{first}" if is_key else f"{self._url}/range?from={first}&to={last}"
        while (answer := client.get(url)).status_code == 503:
            with self._counting:
                stage.answers["refused"] += 1
            time.sleep(_PAUSE_SECONDS)
        waited_ms = 1000 * (time.perf_counter() - started)
        allowed: frozenset[str] = frozenset().union(*(each.allowed for each in self.stages[begun:]))
        if answer.status_code != 200:
            self.wrong.append(f"{url}: {answer.status_code} {answer.text}")
            return
        records = [answer.json()] if is_key else answer.json()["records"]
        found = self._formats(records, numbers)
        with self._counting:
            stage.longest_ms = max(stage.longest_ms, waited_ms)
            if found is None or not found <= allowed:
                self.wrong.append(f"{url}: {answer.text[:200]} in {stage.name!r}")
            else:
                stage.answers["both" if len(found) == len(BOTH) else min(found)] += 1

    def _formats(self, records: list[dict[str, object]], numbers: range) -> set[str] | None:
        """Of the records, if each is there and right."""
        by_key = {record["key"]: record for record in records}
        if len(by_key) != len(numbers):
            return None
        found = {self._shop.format_of(by_key.get(self._shop.key(number), {}), number) for number in numbers}
        return None if None in found else {each for each in found if each is not None}
