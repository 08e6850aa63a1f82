"""A warning where the records look like another format, and no false alarm."""

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dry_run.support import Planned, checks, planned
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, make_spec

NOW = int(time.time() * 1000)
RNG = random.Random(7)
Make = Callable[[int], bytes]

PLAIN: dict[str, Make] = {
    "counters": lambda n: struct.pack(">q", n * n),
    "counters that are -1": lambda n: struct.pack(">q", -1),
    "moments as numbers": lambda n: struct.pack(">q", NOW - n * 1000),
    "doubles": lambda n: struct.pack(">d", n * 1.7),
    "JSON": lambda n: b'{"order": %d, "state": "paid"}' % n,
    "random bytes": lambda n: RNG.randbytes(40),
    "Avro behind a registry's id": lambda n: b"\0\0\0\0\x07" + RNG.randbytes(20),
    "text": lambda n: b"order number %d" % n,
    "nothing": lambda n: b"",
    "short": lambda n: b"abc",
    "half with a time in front": lambda n: (struct.pack(">q", NOW) if n % 2 else b"12345678") + b"value",
}
TIMED: dict[str, Make] = {
    "times": lambda n: struct.pack(">q", NOW - n * 1000) + b"value",
    "unknown times": lambda n: struct.pack(">q", -1) + b"value",
    "times and no value": lambda n: struct.pack(">q", NOW - n * 1000),
    "a few odd times": lambda n: struct.pack(">q", 5 if n % 10 == 0 else NOW) + b"value",
}


def plan_of(
    folder: Path, family: str, source: str, target: str, make: Make, *, allow: tuple[str, ...] = ("loss:timestamp",)
) -> Planned:
    application = folder / "app"
    make_families(application / "0_0/rocksdb/orders", {family: {b"%05d" % n: make(n) for n in range(400)}})
    (application / "0_0/.checkpoint").write_text("0\n0\n")
    sections = {
        "source": {"store": "orders"},
        "conversion": {"allow": [*allow]},
        "run": {"on_reject": "skip", "max_reject_share": 1.0},
    }
    return planned(make_spec(folder, application, source_format=source, target_format=target, **sections))


@pytest.mark.parametrize("make", PLAIN.values(), ids=list(PLAIN))
def test_plain_values_give_no_false_alarm(make: Make, tmp_path: Path) -> None:
    report = plan_of(tmp_path, "default", KEY_VALUE, TIMESTAMPED, make)
    assert report.tried.look_alikes == ()
    assert checks(report, "warning") == {}


@pytest.mark.parametrize("make", TIMED.values(), ids=list(TIMED))
def test_timestamped_values_give_no_false_alarm(make: Make, tmp_path: Path) -> None:
    report = plan_of(tmp_path, "keyValueWithTimestamp", TIMESTAMPED, KEY_VALUE, make)
    assert report.tried.look_alikes == ()


@pytest.mark.parametrize("name", ["times", "unknown times"])
def test_plain_values_that_begin_with_a_time_give_a_warning_and_no_refusal(name: str, tmp_path: Path) -> None:
    report = plan_of(tmp_path, "default", KEY_VALUE, TIMESTAMPED, TIMED[name])
    (alike,) = report.tried.look_alikes
    assert (alike.format, alike.share) == (TIMESTAMPED, 1.0)
    warning = checks(report, "warning")["source.looks"]
    assert TIMESTAMPED in warning.detail
    assert warning.fix
    assert report.verdict.exit_code == 0


@pytest.mark.parametrize(
    ("source", "store", "hinted"),
    [
        ("streamiz.key-value", "times", []),
        ("streamiz.key-value", "Streamiz' times", ["streamiz.timestamped-key-value"]),
        ("rocksdb.raw", "times", []),
        ("rocksdb.raw", "Streamiz' times", ["streamiz.timestamped-key-value"]),
    ],
)
def test_only_formats_of_the_system_that_the_directory_belongs_to_are_suggested(
    source: str, store: str, hinted: list[str], tmp_path: Path
) -> None:
    streamiz: Make = lambda n: struct.pack("<qi", NOW - n * 1000, 5) + b"value"  # noqa: E731
    make = TIMED.get(store, streamiz)
    database = tmp_path / "app/0-0/rocksdb/orders"
    make_families(database, {"default": {b"%05d" % n: make(n) for n in range(400)}})
    (tmp_path / "app/0-0/.checkpoint").write_text("0\n0\n")
    is_raw = source == "rocksdb.raw"
    named = {} if is_raw else {"source": {"store": "orders"}}
    path = database if is_raw else tmp_path / "app"
    report = planned(make_spec(tmp_path, path, source_format=source, target_format=source, **named))
    assert [alike.format for alike in report.tried.look_alikes] == hinted


@pytest.mark.parametrize("name", ["counters", "JSON", "random bytes", "half with a time in front"])
def test_timestamped_values_without_times_give_a_warning(name: str, tmp_path: Path) -> None:
    make = PLAIN[name]
    report = plan_of(tmp_path, "keyValueWithTimestamp", TIMESTAMPED, KEY_VALUE, make)
    formats = [alike.format for alike in report.tried.look_alikes]
    assert formats == ([] if name.startswith("half") else [KEY_VALUE])


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("kafka-streams.versioned", "none of 146 sampled records of 0_0/orders can be converted"),
        ("kafka-streams.headers-key-value", "it has no column family 'keyValueWithTimestampAndHeaders'"),
    ],
)
def test_a_format_that_the_store_has_not_comes_before_what_the_conversion_would_lose(
    source: str, cause: str, tmp_path: Path
) -> None:
    report = plan_of(tmp_path, "default", source, TIMESTAMPED, PLAIN["text"])
    assert len(checks(report, "failed")) > 1
    assert "conversion.allowed" in checks(report, "failed")
    assert cause in report.verdict.sentence
    assert "[source] format" in report.verdict.next_step


def test_a_loss_alone_is_what_the_verdict_says(tmp_path: Path) -> None:
    report = plan_of(tmp_path, "keyValueWithTimestamp", TIMESTAMPED, KEY_VALUE, TIMED["times"], allow=())
    assert [*checks(report, "failed")] == ["conversion.allowed"]
    assert 'set [conversion] allow = ["loss:timestamp"]' in report.verdict.next_step
