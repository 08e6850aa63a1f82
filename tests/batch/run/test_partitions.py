"""Another number of store partitions: every record in the new task that the partitioner says, and nowhere else."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from formats.partitioners import PARTITIONERS
from migrate import RefusedError, Spec, run, verify
from tests.shared.windowed import (
    by_segment,
    make_segments,
    read_segments,
    records_of,
    session_time,
    sessions,
    window_time,
    windows,
)
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_families, make_spec, raises, read_families

Family = dict[bytes, bytes]
SEGMENT = 900_000
TIMED = "keyValueWithTimestamp"
CHANGES = [(2, 3), (2, 12), (12, 2), (3, 3 * 4), (4, 6), (5, 1)]


def keys_of_all_sizes(count: int, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return sorted({rng.randbytes(rng.choice((0, 1, 3, 4, 5, 8, 8, 8, 21))) for _ in range(count)})


PLAIN = {key: b"value of " + key for key in keys_of_all_sizes(2000)}


def spread(
    records: Family, many: int, payload: Callable[[bytes], bytes] = bytes, name: str = "murmur2"
) -> list[Family]:
    """The records of each partition, by the partitioner that asks one key at a time."""
    of = PARTITIONERS[name]
    found: list[Family] = [{} for _ in range(many)]
    for key, value in records.items():
        found[of(payload(key), many)][key] = value
    return found


def make_application(path: Path, stores: dict[str, list[Family]], family: str = "default") -> Path:
    for store, partitions in stores.items():
        for number, records in enumerate(partitions):
            make_families(path / f"0_{number}" / "rocksdb" / store, {family: records})
    return path


def spec_of(tmp_path: Path, application: Path, partitions: int, **sections: Any) -> Spec:  # noqa: ANN401
    sections["source"] = {"store": "orders"} | sections.get("source", {})
    sections["target"] = {"partitions": partitions} | sections.get("target", {})
    sections["conversion"] = {"allow": ["changelog"]} | sections.get("conversion", {})
    return make_spec(tmp_path, application, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections)


def published(spec: Spec, family: str, place: str = "rocksdb/orders") -> list[Family]:
    assert spec.target_path is not None
    tasks = sorted(spec.target_path.iterdir(), key=lambda each: int(each.name[2:]))
    assert [each.name for each in tasks] == [f"0_{number}" for number in range(len(tasks))]
    return [read_families(task / place)[family] for task in tasks]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_every_record_is_in_the_new_task_of_its_key(tmp_path: Path, old: int, new: int) -> None:
    records = PLAIN
    app = make_application(tmp_path / "app", {"orders": spread(records, old)})
    spec = spec_of(tmp_path, app, new, run={"chunk_size": "16 KiB"})
    report = run(spec)
    assert report.verification.ok
    assert report.verification.records == len(records) == report.totals.records_in == report.totals.records_out
    expected = spread({key: UNKNOWN_TIMESTAMP + value for key, value in records.items()}, new)
    assert published(spec, TIMED) == expected
    assert verify(spec).verification.ok
    assert verify(spec, mode="digest").verification.ok


def test_a_misplaced_key_is_refused_before_anything_is_published(tmp_path: Path) -> None:
    records = {key: b"value" for key in keys_of_all_sizes(500)}
    app = make_application(tmp_path / "app", {"orders": spread(records, 2, name="crc32")})
    spec = spec_of(tmp_path, app, 3)
    error = raises(RefusedError, r"the key .* of the store 'orders' is in task 0_\d, and murmur2 of 2", run, spec)
    assert '"crc32"' in error.hint
    assert not (tmp_path / "new" / "app").exists()
    run(spec_of(tmp_path, app, 3, name="second", source={"partitioner": "crc32"}))
    expected = spread({key: UNKNOWN_TIMESTAMP + value for key, value in records.items()}, 3, name="crc32")
    assert published(spec, TIMED) == expected


@dataclass(frozen=True)
class Kind:
    """A kind of store, and how the test makes and reads one."""

    source: str
    target: str
    family: str
    """The new one."""
    records: Family
    before: int = 0
    """Bytes before the payload in a key."""
    behind: int = 0
    prefix: bytes = b""
    """What the conversion puts before a value."""
    time: Callable[[bytes], int] | None = None

    def payload(self, key: bytes) -> bytes:
        return key[self.before : len(key) - self.behind]

    def make(self, app: Path, many: int, store: str = "orders") -> Path:
        partitions = spread(self.records, many, self.payload)
        if self.time is None:
            return make_application(app, {store: partitions}, self.family if self.source == self.target else "default")
        for number, mine in enumerate(partitions):
            make_segments(app / f"0_{number}" / store, mine, SEGMENT, time=self.time)
        return app

    def check(self, spec: Spec, new: int, store: str = "orders") -> None:
        """The new stores have exactly the records that the partitioner puts there."""
        assert spec.target_path is not None
        expected = spread({key: self.prefix + value for key, value in self.records.items()}, new, self.payload)
        if self.time is None:
            assert published(spec, self.family, f"rocksdb/{store}") == expected
            return
        for number, mine in enumerate(expected):
            found = read_segments(spec.target_path / f"0_{number}" / store)
            assert records_of(found, self.family) == by_segment(mine, SEGMENT, self.time)

    def formats(self) -> dict[str, dict[str, str]]:
        return {side: {"format": f"kafka-streams.{getattr(self, side)}"} for side in ("source", "target")}


def _versioned(keys: list[bytes]) -> Family:
    """A latest value of each key, and the former one of some."""
    time = (1000).to_bytes(8, "big")
    latest = {b"\xff" * 8 + key: time + b"now" for key in keys}
    once = time + (500).to_bytes(8, "big") + (500).to_bytes(8, "big") + (3).to_bytes(4, "big") + b"old"
    return latest | {bytes(8) + key: once for key in keys[::2]}


WINDOWS = windows(600, until=2 * SEGMENT)
SESSIONS = {key: value for key, value in sessions(600, until=2 * SEGMENT).items() if len(key) > 16}
KINDS = {
    "window": Kind("window", "window", "default", WINDOWS, behind=12, time=window_time),
    "window-timed": Kind(
        "window", "timestamped-window", TIMED, WINDOWS, behind=12, prefix=UNKNOWN_TIMESTAMP, time=window_time
    ),
    "session": Kind(
        "session",
        "headers-session",
        "sessionKeyValueWithHeaders",
        SESSIONS,
        behind=16,
        prefix=b"\0",
        time=session_time,
    ),
    "versioned": Kind("versioned", "versioned", "default", _versioned(keys_of_all_sizes(500)), before=8),
    "timestamped": Kind(
        "timestamped-key-value",
        "timestamped-key-value",
        TIMED,
        {key: UNKNOWN_TIMESTAMP + b"value" for key in keys_of_all_sizes(500)},
    ),
}


@pytest.mark.parametrize(("old", "new"), [(2, 3), (2, 12), (12, 2)])
@pytest.mark.parametrize("name", KINDS)
def test_the_partitioner_gets_the_payload_of_a_key_alone(tmp_path: Path, old: int, new: int, name: str) -> None:
    kind = KINDS[name]
    spec = spec_of(tmp_path, kind.make(tmp_path / "app", old), new, **kind.formats())
    assert run(spec).verification.records == len(kind.records)
    kind.check(spec, new)
    assert verify(spec, mode="digest").verification.ok


def test_stores_of_other_formats_move_along(tmp_path: Path) -> None:
    app = tmp_path / "app"
    plain = Kind("key-value", "timestamped-key-value", TIMED, PLAIN, prefix=UNKNOWN_TIMESTAMP)
    moved = ("window", "versioned", "session-as-it-is")
    kinds = KINDS | {"session-as-it-is": Kind("session", "session", "default", SESSIONS, behind=16, time=session_time)}
    plain.make(app, 2)
    for name in moved:
        kinds[name].make(app, 2, store=name)
    named = [{"name": name, "format": f"kafka-streams.{kinds[name].source}"} for name in moved]
    spec = make_spec(
        tmp_path,
        app,
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"stores": ["orders", *named]},
        target={"partitions": 3},
        conversion={"allow": ["changelog"]},
    )
    assert run(spec).verification.records == len(PLAIN) + sum(len(kinds[name].records) for name in moved)
    plain.check(spec, 3)
    for name in moved:
        kinds[name].check(spec, 3, store=name)
    assert verify(spec, mode="digest").verification.ok


def test_a_function_may_be_the_partitioner(tmp_path: Path) -> None:
    (tmp_path / "own_partitioner.py").write_text("def of(key, many):\n    return len(key) % many\n")
    records = {key: b"value" for key in keys_of_all_sizes(500)}
    old: list[Family] = [{}, {}]
    new: list[Family] = [{}, {}, {}, {}]
    for key, value in records.items():
        old[len(key) % 2][key] = value
        new[len(key) % 4][key] = UNKNOWN_TIMESTAMP + value
    app = make_application(tmp_path / "app", {"orders": old})
    spec = spec_of(tmp_path, app, 4, source={"partitioner": "own_partitioner:of"})
    run(spec)
    assert published(spec, TIMED) == new
