"""A real application of Quix Streams, the migration of its state and changelog, and what both hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zlib import crc32

from confluent_kafka import Producer

from migrate import Spec, load_spec
from tests.broker.topics import ends_of, make_topic, messages_of
from tests.live.quix.program import PARTITIONS, Settings
from tests.support import read_families

Inputs = list[tuple[bytes, int | None]]
"""A key and a number that is added to its sum; None deletes it."""
Rows = dict[bytes, bytes]
OFFSET = b"__changelog_offset__"


def inputs_of(seed: int, count: int = 60) -> Inputs:
    """Some keys several times; two of them are deleted at the end, and come back or not."""
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


def as_new(sums: Mapping[bytes, int]) -> dict[bytes, dict[str, int]]:
    return {key: {"sum": value} for key, value in sums.items()}


@dataclass(frozen=True)
class App:
    """The application, and the migration of its state."""

    settings: Settings
    base: Path

    @classmethod
    def make(cls, bootstrap: str, base: Path, group: str, **how: Any) -> Self:  # noqa: ANN401 - of Settings
        settings = Settings(bootstrap, group, base / "state", **how)
        make_topic(bootstrap, settings.input, PARTITIONS, **{"retention.ms": "-1"})
        return cls(settings, base)

    @property
    def file(self) -> Path:
        return self.base / "migration.toml"

    @property
    def spec(self) -> Spec:
        """It is written, too."""
        known = "quix.ttl-key-value" if self.settings.ttl_seconds else "quix.key-value"
        self.file.write_text(
            f"""
name = "{self.settings.group}"
work_dir = "work"
source = {{format = "{known}", path = "{self.settings.home}", store = "default"}}
target = {{format = "{known}"}}
conversion = {{function = "tests.shared.conversions:in_object"}}
changelog = {{bootstrap = "{self.settings.bootstrap}", way = "append"}}
run = {{chunk_size = "4 KiB"}}
""",
            encoding="utf-8",
        )
        return load_spec(self.file)

    def send(self, inputs: Inputs) -> int:
        producer = Producer({"bootstrap.servers": self.settings.bootstrap, "enable.idempotence": True, "log_level": 3})
        for key, value in inputs:
            number = crc32(key) % PARTITIONS
            producer.produce(self.settings.input, json.dumps(value).encode(), key, partition=number)
        assert producer.flush(30) == 0
        return len(inputs)

    def records(self) -> dict[int, Rows]:
        """What the stores hold, by partition."""
        return {n: read_families(self.settings.partition(n))["default"] for n in range(PARTITIONS)}

    def sums(self) -> dict[bytes, Any]:
        """The values in the stores, as this version of the application reads them."""
        skipped = 8 if self.settings.ttl_seconds else 0
        rows = [row for each in self.records().values() for row in each.items()]
        return {key.removesuffix(b'|"total"'): json.loads(value[skipped:]) for key, value in rows}

    def offsets(self) -> dict[int, int]:
        """The changelog's offset in each store."""
        found = {n: read_families(self.settings.partition(n))["__metadata__"][OFFSET] for n in range(PARTITIONS)}
        return {number: int.from_bytes(offset, "big") for number, offset in found.items()}

    def logged(self) -> tuple[dict[int, Rows], dict[int, int]]:
        """What is rebuilt from the changelog, by partition, and the last offsets; each is one of a record."""
        rows: dict[int, Rows] = {number: {} for number in range(PARTITIONS)}
        last: dict[int, int] = {}
        for each in messages_of(self.settings.bootstrap, self.settings.changelog):
            assert dict(each.headers)["__column_family__"] == b"default"
            rows[each.partition].pop(each.key, None)
            if each.value is not None:
                rows[each.partition][each.key] = each.value
            last[each.partition] = each.offset
        ends = ends_of(self.settings.bootstrap, self.settings.changelog)
        assert last == {number: end - 1 for number, (_, end) in enumerate(ends)}
        return rows, last

    def wipe(self) -> None:
        shutil.rmtree(self.settings.home)
