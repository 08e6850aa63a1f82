"""A real application of Kafka Streams with stores of several kinds in each task, and what it finds of each key."""

from __future__ import annotations

import io
import json
import random
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any, Literal

from confluent_kafka import Consumer, Producer, TopicPartition
from fastavro import schemaless_writer

from tests.broker.topics import make_topic_again
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.kinds import VERSIONS
from tests.live.maven import JVM_FLAGS, built_classpath
from tests.live.running import RunningProgram

KINDS = (kinds.TIMESTAMPED_KEY_VALUE, kinds.TIMESTAMPED_WINDOW, kinds.SESSION, kinds.VERSIONED)
AVRO_KEY = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "name", "type": "string"}, {"name": "number", "type": "long"}],
}
AVRO_FRAME = b"\0\0\0\0\7"
_SPREAD_MS = 3_000_000
Keys = Literal["text", "long", "avro"]
Answers = dict[str, Mapping[str, Any]]
"""By key: of each kind what there is."""


@dataclass(frozen=True, slots=True)
class Program:
    """A version of the application, and where it runs. Its stores are named after their kinds."""

    bootstrap: str
    application_id: str
    state_dir: Path
    partitions: int
    version: str = "4.3.1"
    exactly_once: bool = False
    kinds: Sequence[str] = KINDS
    suffix: str = ""
    """Behind the names of its stores."""
    keys: Keys = "text"
    """How keys such as "customer-17" are written: as text, as the number, or as an Avro record of both parts."""
    stores: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stores", {kind: f"of-{kind}{self.suffix}" for kind in self.kinds})

    @property
    def input(self) -> str:
        return f"{self.application_id}-input"

    @property
    def folder(self) -> Path:
        return self.state_dir / self.application_id

    def arguments(self) -> str:
        """The settings, as the Java program reads them."""
        streams = {
            "bootstrap.servers": self.bootstrap,
            "application.id": self.application_id,
            "application.server": "localhost:1",
            "state.dir": str(self.state_dir),
            "processing.guarantee": "exactly_once_v2" if self.exactly_once else "at_least_once",
            "commit.interval.ms": 100,
            "auto.offset.reset": "earliest",
        }
        return json.dumps({"input": self.input, "stores": self.stores, "keys": self.keys, "streams": streams})

    def written(self, key: str) -> bytes:
        """The key's bytes."""
        name, _, number = key.rpartition("-")
        if self.keys == "long":
            return int(number).to_bytes(8, "big", signed=True)
        return key.encode() if self.keys == "text" else AVRO_FRAME + _avro({"name": f"{name}-", "number": int(number)})


class App(RunningProgram):
    """One running instance."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.application_id)
        self.program = program

    def command(self) -> list[str]:
        version = self.program.version
        properties = {"kafka.version": version, "jackson.version": VERSIONS[version]}
        classpath = built_classpath("partitions-application", Path(__file__).parent, version, properties)
        return ["java", *JVM_FLAGS, "-cp", classpath, "stateferry.partitions.Main", self.program.arguments()]

    @property
    def restored(self) -> int:
        """Records that its tasks have restored."""
        return sum(event["records"] for event in self.seen("restored"))

    def wait_caught_up(self) -> None:
        """Wait until every input that is there now has been processed and committed."""
        self.wait(lambda: any(event["state"] == "RUNNING" for event in self.seen("state")), "is not running")
        program = self.program
        settings = {"bootstrap.servers": program.bootstrap, "group.id": program.application_id}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        inputs = [TopicPartition(program.input, number) for number in range(program.partitions)]
        try:
            ends = [consumer.get_watermark_offsets(each, timeout=30)[1] for each in inputs]
            self.wait(lambda: _committed(consumer, inputs) >= ends, f"has not processed up to {ends}")
        finally:
            consumer.close()

    def find(self, keys: Sequence[str]) -> Answers:
        """What it finds of these keys, in the partition that it asks."""
        with tempfile.TemporaryDirectory() as folder:
            asked, answers = Path(folder, "keys"), Path(folder, "answers")
            asked.write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
            self.ask(f"find {asked} {answers}", "found")
            lines = map(json.loads, answers.read_text(encoding="utf-8").splitlines())
            return {line.pop("key"): line for line in lines}


def _avro(key: Mapping[str, object]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, AVRO_KEY, key)
    return out.getvalue()


def _committed(consumer: Consumer, inputs: list[TopicPartition]) -> list[int]:
    sleep(0.05)
    found = [each.offset for each in consumer.committed(inputs, timeout=30)]
    return [max(offset, 0) for offset in found]


def found_by(program: Program, keys: Sequence[str], *, is_restored: bool = False) -> Answers:
    """What it finds once it has processed its input, and whether it has restored what it needs, or had all of it."""
    with App(program) as app:
        app.wait_caught_up()
        assert (app.restored > 0) == is_restored, f"restored {app.restored}"
        answers = app.find(keys)
        assert app.stop()["clean"]
    return answers


def records(keys: int, each: int, seed: int = 1) -> list[tuple[str, str, int]]:
    """(key, value, timestamp) of so many records of each key, in any order of keys and in the order of time."""
    rng, now = random.Random(seed), time.time_ns() // 1_000_000
    chosen = [f"customer-{number}" for number in range(keys)] * each
    rng.shuffle(chosen)
    step = _SPREAD_MS // len(chosen)
    return [(key, f"{seed}/{at}", now - _SPREAD_MS + at * step) for at, key in enumerate(chosen)]


def make_input(
    program: Program, partitioner: str = "murmur2_random", every: Iterable[tuple[str, str | None, int]] = ()
) -> None:
    """Make the input topic, again if it is there, and send records to it."""
    make_topic_again(program.bootstrap, program.input, program.partitions, **{"retention.ms": "-1"})
    send(program, partitioner, every)


def send(program: Program, partitioner: str, every: Iterable[tuple[str, str | None, int]]) -> None:
    """Send records to the input topic, each to the partition that this partitioner of librdkafka's chooses."""
    settings = {"bootstrap.servers": program.bootstrap, "partitioner": partitioner, "enable.idempotence": True}
    producer = Producer({**settings, "log_level": 3})
    for key, value, timestamp in every:
        producer.produce(topic=program.input, key=program.written(key), value=value, timestamp=timestamp)
    assert producer.flush(60) == 0
