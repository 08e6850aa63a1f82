"""Dual reading in Faust: what a message costs beside plain new code."""

from __future__ import annotations

import json
import time
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.changelogs import is_unmeasured
from benchmarks.quix import ORDER, Case, add_case
from benchmarks.results import Result
from benchmarks.rounds import empty_folder, measure
from benchmarks.setting import Setting
from tests.broker.broker import running_broker

_MESSAGES = 8_000
CASES = (
    Case("converged", 0.95, 2_000, has_state=False, converges=True),
    Case("first touch of old keys", 0.75, _MESSAGES, has_state=True, converges=False),
)


def faust(setting: Setting) -> list[Result]:
    """Each round has a topic and applications of its own."""
    columns = ["what", "us of CPU a message", "plain", "plain / it, CPU", "lowest", "highest", "of wall"]
    result = Result("faust: messages", f"{_MESSAGES:,} orders, of which totals go to a topic; 2 partitions", columns)
    if is_unmeasured(result):
        return [result]
    with empty_folder(setting.folder) as folder, running_broker(folder / "broker") as broker:
        for case in CASES:
            rounds = [_pair(broker.bootstrap, str(folder), case) for _ in range(setting.rounds)]
            add_case(result, case, rounds, _MESSAGES)
    return [result]


def _pair(bootstrap: str, folder: str, case: Case) -> dict[str, dict[str, float]]:
    """The CPU and wall seconds of plain code and of the adapter, one after the other."""
    topic = f"orders-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, 2, 1), NewTopic(f"{topic}-totals", 2, 1)]).values():
        made.result(30)

    def live(name: str, code: str) -> Any:  # noqa: ANN401 - facts
        own = {"group": f"{name}-{topic}", "code": code, "messages": _MESSAGES, "converges": case.converges}
        return measure("faust", {"bootstrap": bootstrap, "topic": topic, "folder": f"{folder}/faust", **own}).facts

    _send(bootstrap, topic, case.keys)
    if case.has_state:
        live("plain", "new")
        live("dual", "old")
        _send(bootstrap, topic, case.keys)
    return {"plain": live("plain", "new")["seconds"], "dual": live("dual", "dual")["seconds"]}


def _send(bootstrap: str, topic: str, keys: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    value = json.dumps(ORDER)
    for number in range(_MESSAGES):
        producer.produce(topic=topic, key=b"key-%09d" % (number % keys), value=value, partition=number % 2)
    producer.flush()
