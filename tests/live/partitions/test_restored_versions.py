"""A versioned store whose disk is lost comes back from its changelog as Kafka Streams itself restores it."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from migrate import restore, run
from migrate.spec.spec import Spec
from tests.broker.broker import Broker
from tests.live.kafka_streams.kinds import VERSIONED
from tests.live.partitions.app import Program, found_by, make_input, records
from tests.live.partitions.proving import MURMUR2
from tests.support import read_family

_RETENTION_MS = 2 * 3_600_000
"""That of the program."""
_MINUTES_LATE = 20


@pytest.mark.parametrize(("version", "exactly_once"), [("4.3.1", True), ("4.0.1", False)])
def test_a_lost_disk_comes_back(broker: Broker, tmp_path: Path, version: str, *, exactly_once: bool) -> None:
    name = re.sub(r"\W", "-", f"versions-lost-{version}")
    old = Program(broker.bootstrap, name, tmp_path / "old", 2, version, exactly_once=exactly_once, kinds=[VERSIONED])
    every = _out_of_order(records(200, 6))
    keys = sorted({key for key, _, _ in every})
    make_input(old, MURMUR2, every)
    whole, reopened = found_by(old, keys), found_by(old, keys)
    lost = old.folder.rename(tmp_path / "lost")
    spec = Spec(
        name="lost",
        work_dir=tmp_path / "work",
        source={
            "format": f"kafka-streams.{VERSIONED}",
            "store": old.stores[VERSIONED],
            "changelog": True,
            "subtopology": 0,
            "retention_ms": _RETENTION_MS,
        },
        target={"format": f"kafka-streams.{VERSIONED}", "path": tmp_path / "back" / name},
        changelog={"bootstrap": broker.bootstrap, "application_id": name},
    )
    restore(spec)
    for task in ("0_0", "0_1"):
        was, now = (
            read_family(each / task / "rocksdb" / old.stores[VERSIONED], "default") for each in (lost, spec.source_path)
        )
        assert now == was
        assert len(was) > len(keys)
    run(spec)
    assert found_by(replace(old, state_dir=tmp_path / "back"), keys) == reopened
    assert found_by(replace(old, state_dir=tmp_path / "elsewhere"), keys, is_restored=True) == whole


def _out_of_order(every: list[tuple[str, str, int]]) -> list[tuple[str, str | None, int]]:
    """A fourth of them comes late, and some delete."""
    rng = random.Random(4)
    late = _MINUTES_LATE * 60_000
    mixed = sorted(every, key=lambda each: each[2] + (rng.randrange(late) if rng.random() < 0.25 else 0))
    return [(key, None if rng.random() < 0.1 else value, at) for key, value, at in mixed]
