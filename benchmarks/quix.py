"""Dual reading in Quix Streams: what a message costs beside plain new code, and how fast old values move."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.changelogs import is_unmeasured
from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure
from benchmarks.setting import Setting
from tests.broker.broker import running_broker

CONVERGED_BAR, NEW_BAR, OLD_BAR, CONVERGE_BAR = 0.95, 0.85, 0.55, 20_000
_MESSAGES = 60_000
_OLD_VALUES = 100_000
ORDER = {
    "amount": 12,
    "currency": "EUR",
    "items": [{"article": "4711", "count": 2, "price": 6}],
    "city": "Berlin",
    "placed_at": "2026-11-28T17:00:00Z",
    "is_paid": True,
}
"""With a number and a customer, what a message holds; each total goes to a topic."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the messages of an application with the adapter meet, beside those of plain new code."""

    name: str
    bar: float
    keys: int
    """How many keys the messages have."""
    has_state: bool
    """Whether all keys have a value before: an old one, or in plain code a new one."""
    converges: bool
    before: int = 0
    """How many messages come before those that are measured."""


CASES = (
    Case("converged", CONVERGED_BAR, 5_000, has_state=False, converges=True, before=20_000),
    Case("keys that are new, not converged", NEW_BAR, _MESSAGES // 2, has_state=False, converges=False),
    Case("first touch of old keys", OLD_BAR, _MESSAGES, has_state=True, converges=False),
)


def quix(setting: Setting) -> list[Result]:
    """Each round has groups of its own, over topics that are filled once."""
    columns = ["what", "us of CPU a message", "plain", "plain / it, CPU", "lowest", "highest", "of wall"]
    messages = Result(
        "quix: messages", f"{_MESSAGES:,} orders, of which totals go to a topic; 2 partitions, with changelogs", columns
    )
    converge = Result("quix: converge", f"{_OLD_VALUES:,} old values", ["what", "records per CPU second", "of wall"])
    if is_unmeasured(messages, converge):
        return [messages, converge]
    with empty_folder(setting.folder) as folder, running_broker(folder / "broker") as broker:
        for case in CASES:
            lives = _Lives(broker.bootstrap, str(folder / "state"), case.keys, case.before + _MESSAGES)
            add_case(messages, case, [lives.pair(case) for _ in range(setting.rounds)], _MESSAGES)
        lives = _Lives(broker.bootstrap, str(folder / "state"), _OLD_VALUES, _OLD_VALUES)
        moved = [lives.converge()["seconds"] for _ in range(min(setting.rounds, 3))]
    speeds = {clock: statistics.median(_OLD_VALUES / each[clock] for each in moved) for clock in ("cpu", "wall")}
    converge.rows.append(["commits included", f"{speeds['cpu']:,.0f}", f"{speeds['wall']:,.0f}"])
    converge.bars.append(Bar(converge.name, "records per CPU second", CONVERGE_BAR, speeds["cpu"]))
    converge.raw = {"rounds": moved}
    return [messages, converge]


def add_case(result: Result, case: Case, rounds: list[dict[str, dict[str, float]]], messages: int) -> None:
    """A row and a bar, of the seconds of so many messages in each round."""
    ratios = {clock: [each["plain"][clock] / each["dual"][clock] for each in rounds] for clock in ("cpu", "wall")}
    mine, plain = (
        statistics.median(each[code]["cpu"] for each in rounds) / messages * 1e6 for code in ("dual", "plain")
    )
    cpu = ratios["cpu"]
    reached = statistics.median(cpu)
    figures = [f"{each:.2f}" for each in (reached, min(cpu), max(cpu), statistics.median(ratios["wall"]))]
    result.rows.append([case.name, f"{mine:.1f}", f"{plain:.1f}", *figures])
    result.bars.append(Bar(result.name, f"{case.name}, times plain", case.bar, reached))
    result.raw[case.name] = rounds


class _Lives:
    """Of an application, over one topic."""

    def __init__(self, bootstrap: str, folder: str, keys: int, messages: int) -> None:
        self._base: dict[str, Any] = {"bootstrap": bootstrap, "topic": f"numbers-{time.time_ns()}", "folder": folder}
        self._keys = keys
        self._messages = messages
        admin = AdminClient({"bootstrap.servers": bootstrap})
        new = [NewTopic(self._base["topic"] + suffix, 2, 1) for suffix in ("", "-totals")]
        for done in admin.create_topics(new).values():
            done.result(30)
        self._send()

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._base["bootstrap"]})
        for number in range(self._messages):
            customer = f"customer-{number % self._keys:09}"
            value = json.dumps(ORDER | {"id": number, "customer": customer})
            producer.produce(topic=self._base["topic"], key=customer, value=value, partition=number % 2)
            if number % 10_000 == 0:
                producer.poll(0)
        producer.flush()

    def _go_back(self, group: str) -> None:
        """To the first messages: each comes once more."""
        admin = AdminClient({"bootstrap.servers": self._base["bootstrap"]})
        partitions = [TopicPartition(self._base["topic"], number, 0) for number in range(2)]
        for done in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)]).values():
            done.result(30)

    def live(
        self, group: str, code: str, messages: int | None = None, *, converges: bool = True, before: int = 0
    ) -> Any:  # noqa: ANN401 - facts
        own: dict[str, Any] = {"group": group, "code": code, "converges": converges, "before": before}
        return measure(
            "quix", {**self._base, **own, "messages": self._messages if messages is None else messages}
        ).facts

    def pair(self, case: Case) -> dict[str, dict[str, float]]:
        """The CPU and wall seconds of plain code and of the adapter, one after the other."""
        found = {}
        for code, name in (("new", "plain"), ("dual", "dual")):
            group = f"{name}-{time.time_ns()}"
            if case.has_state:
                self.live(group, "new" if code == "new" else "old")
                self._go_back(group)
            found[name] = self.live(group, code, converges=case.converges, before=case.before)["seconds"]
        return found

    def converge(self) -> Any:  # noqa: ANN401 - facts
        group = f"converge-{time.time_ns()}"
        self.live(group, "old")
        facts = self.live(group, "dual", 0)
        if facts["moved"] < self._keys:
            raise AssertionError(f"{facts['moved']} of {self._keys} values were moved")
        return facts
