"""The Java program makes what Kafka Streams opens again, and finds what is wrong with a state directory."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.live.kafka_streams import program
from tests.live.kafka_streams.events import Row, read_expected, write_expected
from tests.live.kafka_streams.make_fixture import FIXTURE, KINDS, murmur2
from tests.live.kafka_streams.program import KEY_VALUE, TIMESTAMPED_KEY_VALUE, VERSIONS, make_state, open_state
from tests.support import raises

RECORDS = 2000
HELD = RECORDS - RECORDS // 20
LAST_OFFSET = RECORDS + RECORDS // 10 + RECORDS // 20 - 1


@dataclass(frozen=True)
class Made:
    version: str
    app_dir: Path
    expected: Path


@pytest.fixture(scope="module", autouse=True)
def _live() -> None:
    program.require_live()


@pytest.fixture(scope="module", params=VERSIONS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    version: str = request.param
    return make(version, tmp_path_factory.mktemp("state") / "app")


@pytest.fixture(scope="module")
def made_4_0(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make("4.0.1", tmp_path_factory.mktemp("state") / "app")


def make(version: str, app_dir: Path) -> Made:
    others = {"stamped": TIMESTAMPED_KEY_VALUE}
    expected = make_state(
        version, app_dir, store="plain", kind=KEY_VALUE, tasks=2, records=RECORDS, seed=7, other_stores=others
    )
    return Made(version, app_dir, expected)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_opens_what_it_made(made: Made, exactly_once: bool) -> None:
    verdict = open_state(
        made.version,
        made.app_dir,
        store="plain",
        kind=KEY_VALUE,
        expected=made.expected,
        other_stores={"stamped": TIMESTAMPED_KEY_VALUE},
        exactly_once=exactly_once,
    )
    assert verdict.ok, verdict.difference
    assert verdict.version == made.version
    assert list(verdict.tasks) == ["0_0", "0_1"]
    for store in ("plain", "stamped"):
        assert verdict.records(store) == 2 * HELD
        assert not verdict.upgrade_mode(store)
        for partition, found in enumerate(verdict.stores(store)):
            assert found.offset == LAST_OFFSET
            assert found.offset_source == ("offsets" if made.version == "4.3.1" else "checkpoint")
            assert found.position == {f"{store}-events-{partition}": LAST_OFFSET}


def test_leaves_on_disk_what_a_clean_shutdown_leaves(made: Made) -> None:
    tasks = ["0_0", "0_1"]
    names = {path.name for path in made.app_dir.iterdir()}
    assert names == {*tasks, ".lock", "kafka-streams-process-metadata"}
    for partition, task in enumerate(tasks):
        files = {path.name for path in (made.app_dir / task).iterdir()}
        if made.version == "4.3.1":
            assert files == {"rocksdb"}
            continue
        assert files == {"rocksdb", ".checkpoint", "plain.position", "stamped.position"}
        checkpoint = (made.app_dir / task / ".checkpoint").read_text().splitlines()
        assert checkpoint[:2] == ["0", "2"]
        assert set(checkpoint[2:]) == {
            f"app-plain-changelog {partition} {LAST_OFFSET}",
            f"app-stamped-changelog {partition} {LAST_OFFSET}",
        }


def test_plain_records_opened_as_timestamped_are_in_upgrade_mode(made: Made) -> None:
    verdict = open_state(
        made.version, made.app_dir, store="plain", kind=TIMESTAMPED_KEY_VALUE, expected=made.expected, timestamp=-1
    )
    assert verdict.ok, verdict.difference
    assert verdict.upgrade_mode("plain")


def test_timestamped_records_opened_as_plain_are_refused(made: Made) -> None:
    verdict = open_state(made.version, made.app_dir, store="stamped", kind=KEY_VALUE, expected=made.expected)
    assert not verdict.ok
    refusal = "is a timestamped key-value store" if made.version == "4.3.1" else "Column families not opened"
    assert refusal in str(verdict.difference)


def change_a_value(rows: list[Row], at: int) -> None:
    rows[at] = replace(rows[at], value=(rows[at].value or b"") + b"!")


def change_a_timestamp(rows: list[Row], at: int) -> None:
    rows[at] = replace(rows[at], timestamp=1)


def forget_a_record(rows: list[Row], at: int) -> None:
    del rows[at]


def invent_a_record(rows: list[Row], at: int) -> None:
    rows.insert(at + 1, replace(rows[at], key=rows[at].key + b"\x00"))


@pytest.mark.parametrize("alter", [change_a_value, change_a_timestamp, forget_a_record, invent_a_record])
def test_names_the_first_difference(made_4_0: Made, tmp_path: Path, alter: Callable[[list[Row], int], None]) -> None:
    expected = tmp_path / "expected"
    shutil.copytree(made_4_0.expected, expected)
    rows = read_expected(expected / "0_1" / "stamped.jsonl.gz")
    keys = [row.key for row in rows]
    key = next(key for key in keys if len(key) > 20 and key + b"\x00" not in keys)
    alter(rows, keys.index(key))
    write_expected(expected / "0_1" / "stamped.jsonl.gz", rows)
    verdict = open_state(
        made_4_0.version, made_4_0.app_dir, store="stamped", kind=TIMESTAMPED_KEY_VALUE, expected=expected
    )
    assert not verdict.ok
    assert str(verdict.difference).startswith("0_1/stamped: all(): ")
    assert key.hex() in str(verdict.difference)
    assert [found.records for found in verdict.stores("stamped")] == [HELD, None]


def test_a_wiped_store_is_a_difference(made: Made, tmp_path: Path) -> None:
    copy = copy_of(made, tmp_path)
    other = make_state(
        made.version, tmp_path / "other" / "app", store="plain", kind=KEY_VALUE, tasks=1, records=1, seed=1
    )
    shutil.rmtree(copy.app_dir / "0_1/rocksdb/plain")
    shutil.copytree(other.parent / "app/0_0/rocksdb/plain", copy.app_dir / "0_1/rocksdb/plain")
    # In 4.3.1 the offset goes with the store.
    reason = "no changelog offset is known" if made.version == "4.3.1" else "all(): "
    assert f"0_1/plain: {reason}" in str(open_plain(copy).difference)
    shutil.rmtree(copy.app_dir / "0_1/rocksdb/plain")
    assert "0_1/plain: no such store" in str(open_plain(copy).difference)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_lost_changelog_offset_is_a_difference(made_4_0: Made, tmp_path: Path, exactly_once: bool) -> None:
    copy = copy_of(made_4_0, tmp_path)
    (copy.app_dir / "0_1/.checkpoint").unlink()
    difference = str(open_plain(copy, exactly_once=exactly_once).difference)
    assert ("TaskCorruptedException" if exactly_once else "no changelog offset is known") in difference


def test_a_checkpoint_decides_the_changelog_offset(made: Made, tmp_path: Path) -> None:
    copy = copy_of(made, tmp_path)
    (copy.app_dir / "0_0/.checkpoint").write_text("0\n1\napp-plain-changelog 0 100\n")
    verdict = open_plain(copy)
    assert verdict.ok, verdict.difference
    assert [found.offset for found in verdict.stores("plain")] == [100, LAST_OFFSET]


def test_4_3_imports_the_checkpoint_of_4_0_and_4_0_refuses_what_4_3_wrote(made_4_0: Made, tmp_path: Path) -> None:
    verdict = open_plain(replace(made_4_0, version="4.3.1"))
    assert verdict.ok, verdict.difference
    assert [found.offset_source for found in verdict.stores("plain")] == ["checkpoint", "checkpoint"]
    newer = replace(make("4.3.1", tmp_path / "app"), version="4.0.1")
    assert "Column families not opened: offsets" in str(open_plain(newer).difference)


def test_the_fixture_holds_what_it_says() -> None:
    others = {store: kind for store, kind in KINDS.items() if store != "orders"}
    verdict = open_state(
        "4.0.1",
        FIXTURE / "orders-app",
        store="orders",
        kind=KEY_VALUE,
        expected=FIXTURE / "expected",
        other_stores=others,
    )
    assert verdict.ok, verdict.difference
    counts = {store: [found.records for found in verdict.stores(store)] for store in KINDS}
    assert counts == {"orders": [2022, 2025, 1953], "refunds": [185, 194, 221], "customers": [198, 207, 195]}


def test_partitioners_is_kafkas() -> None:
    # From org.apache.kafka.common.utils.UtilsTest.
    assert murmur2(b"21") == -973932308 % 2**32
    assert murmur2(b"foobar") == -790332482 % 2**32
    assert murmur2(b"a-little-bit-long-string") == -985981536 % 2**32
    assert murmur2(b"abc") == 479470107


def test_without_java_it_skips_or_fails_where_live_tests_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    monkeypatch.setitem(os.environ, "REQUIRE_LIVE", "0")
    raises(pytest.skip.Exception, "java, javac, mvn", program.require_live)
    monkeypatch.setitem(os.environ, "REQUIRE_LIVE", "1")
    raises(pytest.fail.Exception, "java, javac, mvn", program.require_live)


def copy_of(made: Made, directory: Path) -> Made:
    copy = directory / made.app_dir.name
    shutil.copytree(made.app_dir, copy)
    return replace(made, app_dir=copy)


def open_plain(made: Made, *, exactly_once: bool = False) -> program.Verdict:
    return open_state(
        made.version,
        made.app_dir,
        store="plain",
        kind=KEY_VALUE,
        expected=made.expected,
        exactly_once=exactly_once,
    )
