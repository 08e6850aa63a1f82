"""State of Quix Streams and its changelog, migrated, restarted, rebuilt and taken back, by the real Quix Streams."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from formats import StateRecord
from migrate import RefusedError, Spec, cutover, plan, rollback, run
from migrate.spec.spec import parse_spec
from tests.broker.broker import Broker
from tests.live.quix.program import PARTITIONS, Settings
from tests.support import raises, read_families

Inputs = list[tuple[bytes, int | None]]
"""A key and a number that is added to its sum; None deletes it."""
TTL_SECONDS = 86_400


def convert(record: StateRecord) -> StateRecord:
    return replace(record, value=b'{"sum":%s}' % record.value)


def inputs_of(seed: int, count: int = 60) -> Inputs:
    """Each key several times; some are deleted at the end."""
    keys = [b"key-%02d" % (number * 7 % 40) for number in range(count)]
    return [(key, seed + at) for at, key in enumerate(keys)] + [(b"key-%02d" % seed, None), (b"only-%d" % seed, seed)]


def sums_of(*every: Inputs) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for key, value in (each for inputs in every for each in inputs):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = found.get(key, 0) + value
    return found


@dataclass(frozen=True)
class App:
    """The application, and the migration of its state."""

    settings: Settings
    base: Path

    @classmethod
    def make(cls, broker: Broker, base: Path, group: str, **how: Any) -> Self:  # noqa: ANN401 - of Settings
        settings = Settings(broker.bootstrap, group, base / "state", **how)
        topic = NewTopic(settings.input, PARTITIONS, 1, config={"retention.ms": "-1"})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([topic])[settings.input].result(30)
        return cls(settings, base)

    @property
    def format(self) -> str:
        return "quix.ttl-key-value" if self.settings.ttl_seconds else "quix.key-value"

    @property
    def spec(self) -> Spec:
        content = {
            "name": self.settings.group,
            "work_dir": "work",
            "source": {"format": self.format, "path": str(self.settings.home), "store": "default"},
            "target": {"format": self.format},
            "conversion": {"function": "tests.live.quix.test_migrations:convert"},
            "changelog": {"bootstrap": self.settings.bootstrap, "way": "append"},
        }
        return parse_spec(content, base_dir=self.base)

    def send(self, inputs: Inputs) -> int:
        producer = Producer({"bootstrap.servers": self.settings.bootstrap, "enable.idempotence": True})
        for key, value in inputs:
            number = crc32(key) % PARTITIONS
            producer.produce(self.settings.input, json.dumps(value).encode(), key, partition=number)
        assert producer.flush(30) == 0
        return len(inputs)

    def stored(self) -> dict[int, dict[str, dict[bytes, bytes]]]:
        """All that the stores hold, but how far they are in their changelog."""
        found = {number: read_families(self.settings.partition(number)) for number in range(PARTITIONS)}
        for families in found.values():
            families["__metadata__"].pop(b"__changelog_offset__", None)
        return found

    def sums(self) -> dict[bytes, Any]:
        """The values in the stores, as this version of the application reads them."""
        skipped = 8 if self.settings.ttl_seconds else 0
        return {
            key.removesuffix(b'|"total"'): json.loads(value[skipped:])
            for families in self.stored().values()
            for key, value in families["default"].items()
        }

    def wipe(self) -> None:
        shutil.rmtree(self.settings.home)


def as_new(sums: Mapping[bytes, int]) -> dict[bytes, dict[str, int]]:
    return {key: {"sum": value} for key, value in sums.items()}


@pytest.mark.parametrize(
    ("guarantee", "ttl_seconds"), [("at-least-once", 0), ("exactly-once", TTL_SECONDS)], ids=["plain", "expiring"]
)
def test_the_new_version_goes_on_and_rebuilds_and_the_old_one_after_the_way_back(
    guarantee: str, ttl_seconds: int, broker: Broker, tmp_path: Path
) -> None:
    app = App.make(broker, tmp_path, f"quix-{guarantee}", guarantee=guarantee, ttl_seconds=ttl_seconds)
    first, second = inputs_of(3), inputs_of(5)
    app.settings.run(app.send(first))
    assert app.sums() == sums_of(first)
    old = app.stored()
    assert plan(app.spec).verdict.exit_code == 0
    assert run(app.spec).verification.ok
    cutover(app.spec)
    migrated = app.stored()
    assert app.sums() == as_new(sums_of(first))
    new = app.settings.new
    assert new.run() == 0
    assert app.stored() == migrated
    app.wipe()
    assert new.run() > 0
    assert {number: each["default"] for number, each in app.stored().items()} == {
        number: each["default"] for number, each in migrated.items()
    }
    new.run(app.send(second))
    assert app.sums() == as_new(sums_of(first, second))
    rollback(app.spec, discard_new_writes=False)
    assert {number: each["default"] for number, each in app.stored().items()} == {
        number: each["default"] for number, each in old.items()
    }
    app.settings.run(len(second))
    assert app.sums() == sums_of(first, second)
    app.wipe()
    assert app.settings.run() > 0
    assert app.sums() == sums_of(first, second)


def test_a_store_that_is_behind_its_changelog_is_refused(broker: Broker, tmp_path: Path) -> None:
    app = App.make(broker, tmp_path, "quix-behind")
    app.settings.run(app.send(inputs_of(3)))
    shutil.copytree(app.settings.home, tmp_path / "before")
    app.settings.run(app.send(inputs_of(5)))
    app.wipe()
    (tmp_path / "before").rename(app.settings.home)
    raises(RefusedError, "which the new store lacks|has records from offset|is behind", run, app.spec)
