"""The Java program makes and opens every kind of store, and finds what is wrong with a state directory."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.live.kafka_streams import kinds, program
from tests.live.kafka_streams.dsl import (
    EMIT_FINAL_SESSION,
    EMIT_FINAL_SLIDING_WINDOW,
    EMIT_FINAL_WINDOW,
    FOREIGN_KEY,
    OUTER_JOIN,
    TOPOLOGIES,
    make_dsl_state,
)
from tests.live.kafka_streams.events import Row, read_expected, write_expected
from tests.live.kafka_streams.kinds import KEY_VALUE as PLAIN
from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS, VERSIONS, segment_interval, versions_of
from tests.live.kafka_streams.kinds import TIMESTAMPED_KEY_VALUE as STAMPED
from tests.live.kafka_streams.make_fixture import FIXTURE, murmur2
from tests.live.kafka_streams.make_fixture import KINDS as OF_FIXTURE
from tests.live.kafka_streams.program import Verdict, make_half_upgraded, make_state, open_state
from tests.support import raises, read_families

RECORDS = 600
HELD = RECORDS - RECORDS // 20
LAST_OFFSET = RECORDS + RECORDS // 10 + RECORDS // 20 - 1
TASKS = ("0_0", "0_1")

# What Kafka Streams itself upgrades, key by key.
UPGRADES = [
    ("3.9.1", kinds.KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE),
    ("4.0.1", kinds.WINDOW, kinds.TIMESTAMPED_WINDOW),
    ("4.3.1", kinds.KEY_VALUE, kinds.HEADERS_KEY_VALUE),
    ("4.3.1", kinds.TIMESTAMPED_KEY_VALUE, kinds.HEADERS_KEY_VALUE),
    ("4.3.1", kinds.TIMESTAMPED_WINDOW, kinds.HEADERS_WINDOW),
    ("4.3.1", kinds.JOIN_WINDOW, kinds.HEADERS_JOIN_WINDOW),
    ("4.3.1", kinds.SESSION, kinds.HEADERS_SESSION),
]


@dataclass(frozen=True)
class Made:
    """A state directory with a store of every kind, each named after its kind."""

    version: str
    app_dir: Path
    expected: Path

    def stores(self) -> list[str]:
        return [kind for kind in KINDS if self.version in versions_of(kind)]

    def open(self, *stores: str, kind: str | None = None, **more: Any) -> Verdict:  # noqa: ANN401 - of `open_state`
        first, *others = stores
        wanted = {"expected": self.expected, "retention_ms": RETENTION_MS, **more}
        other_stores = {store: store for store in others}
        return open_state(
            self.version, self.app_dir, store=first, kind=kind or first, other_stores=other_stores, **wanted
        )

    def rows(self, store: str, task: str) -> list[Row]:
        return read_expected(self.expected / task / f"{store}.jsonl.gz")

    def copied(self, folder: Path) -> "Made":
        return replace(self, app_dir=Path(shutil.copytree(self.app_dir, folder / self.app_dir.name)))


MadeBy = Callable[[str], Made]


@pytest.fixture(scope="module", autouse=True)
def _live() -> None:
    program.require_live()


@pytest.fixture(scope="module")
def made_by(tmp_path_factory: pytest.TempPathFactory) -> MadeBy:
    def make(version: str) -> Made:
        app_dir = tmp_path_factory.mktemp("state") / "app"
        first, *others = (kind for kind in KINDS if version in versions_of(kind))
        more: Any = {"tasks": len(TASKS), "records": RECORDS, "seed": 17}
        other_stores = {store: store for store in others}
        return Made(
            version, app_dir, make_state(version, app_dir, store=first, kind=first, other_stores=other_stores, **more)
        )

    return cache(make)


@pytest.fixture(scope="module", params=VERSIONS)
def made(request: pytest.FixtureRequest, made_by: MadeBy) -> Made:
    return made_by(request.param)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_every_kind_opens_as_it_was_made(made: Made, exactly_once: bool) -> None:
    verdict = made.open(*made.stores(), exactly_once=exactly_once)
    assert verdict.ok, verdict.difference
    assert (verdict.version, list(verdict.tasks)) == (made.version, list(TASKS))
    for store in made.stores():
        rows = [row for task in TASKS for row in made.rows(store, task)]
        assert verdict.records(store) == sum(row.value is not None for row in rows)
        assert verdict.records(store) > RECORDS
        assert not verdict.upgrade_mode(store)
        offsets = "offsets" if made.version == "4.3.1" else "checkpoint"
        assert {found.offset_source for found in verdict.stores(store)} == {offsets}
    for store in (PLAIN, STAMPED):
        assert verdict.records(store) == 2 * HELD
        for partition, found in enumerate(verdict.stores(store)):
            assert found.offset == LAST_OFFSET
            assert found.position == {f"{store}-events-{partition}": LAST_OFFSET}


def test_it_leaves_on_disk_what_a_clean_shutdown_leaves(made: Made) -> None:
    names = {path.name for path in made.app_dir.iterdir()}
    assert names == {*TASKS, ".lock", "kafka-streams-process-metadata"}
    stores = made.stores()
    segmented = {store for store in stores if KINDS[store].segmented}
    for partition, task in enumerate(TASKS):
        files = {path.name for path in (made.app_dir / task).iterdir()}
        if made.version == "4.3.1":
            assert files == {"rocksdb", *segmented}
            continue
        assert files == {"rocksdb", ".checkpoint", *segmented, *(f"{store}.position" for store in stores)}
        checkpoint = (made.app_dir / task / ".checkpoint").read_text().splitlines()
        assert checkpoint[:2] == ["0", str(len(stores))]
        assert len(checkpoint) == 2 + len(stores)
        assert {f"app-{store}-changelog {partition} {LAST_OFFSET}" for store in (PLAIN, STAMPED)} < {*checkpoint}


def test_plain_records_opened_as_timestamped_are_in_upgrade_mode(made: Made) -> None:
    verdict = made.open(PLAIN, kind=STAMPED, timestamp=-1)
    assert verdict.ok, verdict.difference
    assert verdict.upgrade_mode(PLAIN)


def test_timestamped_records_opened_as_plain_are_refused(made: Made) -> None:
    verdict = made.open(STAMPED, kind=PLAIN)
    assert not verdict.ok
    refusal = "is a timestamped key-value store" if made.version == "4.3.1" else "Column families not opened"
    assert refusal in str(verdict.difference)


def test_segments_lie_where_kafka_streams_looks_for_them(made: Made) -> None:
    interval = segment_interval(RETENTION_MS)
    for kind in made.stores():
        segments = made.app_dir / "0_0" / kind
        assert segments.is_dir() == KINDS[kind].segmented
        if KINDS[kind].segmented:
            times = {row.start if row.end is None else row.end for row in made.rows(kind, "0_0")}
            used = {f"{kind}.{time // interval * interval}" for time in times if time is not None}
            assert len(used) >= 3
            assert used <= {path.name for path in segments.iterdir()}


def _one(rows: list[Row]) -> int:
    keys = [row.key for row in rows]
    return next(at for at, key in enumerate(keys) if rows[at].value and key + b"\x00" not in keys)


def another_value(rows: list[Row]) -> str:
    at = next(at for at, row in enumerate(rows) if row.value)
    rows[at] = replace(rows[at], value=b"another")
    return rows[at].key.hex()


def another_timestamp(rows: list[Row]) -> str:
    at = _one(rows)
    rows[at] = replace(rows[at], timestamp=1)
    return rows[at].key.hex()


def other_headers(rows: list[Row]) -> str:
    at = next(at for at, row in enumerate(rows) if row.headers and row.headers[0][1] is None)
    rows[at] = replace(rows[at], headers=(("h", b""),))  # empty, not null
    return "with headers [h=(empty)], found"


def one_less(rows: list[Row]) -> str:
    return rows.pop(_one(rows)).key.hex()


def one_less_of_its_key(rows: list[Row]) -> str:
    return rows.pop(next(at for at, row in enumerate(rows) if row.value and rows[at - 1].key == row.key)).key.hex()


def one_more(rows: list[Row]) -> str:
    at = _one(rows)
    rows.insert(at + 1, replace(rows[at], key=rows[at].key + b"\x00"))
    return rows[at].key.hex()


@pytest.mark.parametrize(
    ("alter", "store"),
    [
        *((another_value, kind) for kind in KINDS),
        *((alter, STAMPED) for alter in (another_timestamp, one_less, one_more)),
        *((other_headers, kind) for kind, held in KINDS.items() if held.headers),
        *((one_less_of_its_key, kind) for kind, held in KINDS.items() if held.shape != "key-value"),
    ],
)
def test_the_first_difference_is_named(
    alter: Callable[[list[Row]], str], store: str, made_by: MadeBy, tmp_path: Path
) -> None:
    made, expected = made_by("4.3.1"), tmp_path / "expected"
    shutil.copytree(made.expected, expected)
    rows = made.rows(store, "0_1")
    said = alter(rows)
    write_expected(expected / "0_1" / f"{store}.jsonl.gz", rows)
    verdict = made.open(store, expected=expected)
    assert not verdict.ok
    way = "all(): " if KINDS[store].shape == "key-value" else ""
    assert str(verdict.difference).startswith(f"0_1/{store}: {way}")
    assert said in str(verdict.difference)
    held = sum(row.value is not None for row in made.rows(store, "0_0"))
    assert [found.records for found in verdict.stores(store)] == [held, None]


def test_a_segment_in_a_directory_of_another_time_is_a_difference(made_by: MadeBy, tmp_path: Path) -> None:
    copy = made_by("4.3.1").copied(tmp_path)
    *_, last = sorted((copy.app_dir / "0_1" / kinds.SESSION).iterdir())
    start = int(last.name.rpartition(".")[2])
    last.rename(last.with_name(f"{kinds.SESSION}.{start + segment_interval(RETENTION_MS)}"))
    assert str(copy.open(kinds.SESSION).difference).startswith("0_1/session: ")


def test_a_wiped_store_is_a_difference(made: Made, tmp_path: Path) -> None:
    copy, other = made.copied(tmp_path), tmp_path / "other" / "app"
    make_state(made.version, other, store=PLAIN, kind=PLAIN, tasks=1, records=1, seed=1)
    store = copy.app_dir / "0_1/rocksdb" / PLAIN
    shutil.rmtree(store)
    shutil.copytree(other / "0_0/rocksdb" / PLAIN, store)
    # In 4.3.1 the offset goes with the store.
    reason = "no changelog offset is known" if made.version == "4.3.1" else "all(): "
    assert f"0_1/{PLAIN}: {reason}" in str(copy.open(PLAIN).difference)
    shutil.rmtree(store)
    assert f"0_1/{PLAIN}: no such store" in str(copy.open(PLAIN).difference)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_lost_changelog_offset_is_a_difference(made_by: MadeBy, tmp_path: Path, exactly_once: bool) -> None:
    copy = made_by("4.0.1").copied(tmp_path)
    (copy.app_dir / "0_1/.checkpoint").unlink()
    difference = str(copy.open(PLAIN, exactly_once=exactly_once).difference)
    assert ("TaskCorruptedException" if exactly_once else "no changelog offset is known") in difference


def test_a_checkpoint_decides_the_changelog_offset(made: Made, tmp_path: Path) -> None:
    copy = made.copied(tmp_path)
    (copy.app_dir / "0_0/.checkpoint").write_text(f"0\n1\napp-{PLAIN}-changelog 0 100\n")
    verdict = copy.open(PLAIN)
    assert verdict.ok, verdict.difference
    assert [found.offset for found in verdict.stores(PLAIN)] == [100, LAST_OFFSET]


def test_4_3_imports_the_checkpoint_of_4_0_and_4_0_refuses_what_4_3_wrote(made_by: MadeBy) -> None:
    verdict = replace(made_by("4.0.1"), version="4.3.1").open(PLAIN)
    assert verdict.ok, verdict.difference
    assert [found.offset_source for found in verdict.stores(PLAIN)] == ["checkpoint", "checkpoint"]
    newer = replace(made_by("4.3.1"), version="4.0.1")
    assert "Column families not opened: offsets" in str(newer.open(PLAIN).difference)


def test_the_fixture_holds_what_it_says() -> None:
    others = {store: kind for store, kind in OF_FIXTURE.items() if store != "orders"}
    verdict = open_state(
        "4.0.1",
        FIXTURE / "orders-app",
        store="orders",
        kind=PLAIN,
        expected=FIXTURE / "expected",
        other_stores=others,
    )
    assert verdict.ok, verdict.difference
    counts = {store: [found.records for found in verdict.stores(store)] for store in OF_FIXTURE}
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


@pytest.mark.parametrize(("version", "old_kind", "kind"), UPGRADES)
def test_a_half_upgraded_store_is_read_whole(version: str, old_kind: str, kind: str, tmp_path: Path) -> None:
    app = tmp_path / "app"
    expected = make_half_upgraded(version, app, store="s", old_kind=old_kind, kind=kind, tasks=2, records=400, seed=3)
    segments = app / "0_0" / "s"
    databases = list(segments.iterdir()) if segments.is_dir() else [app / "0_0" / "rocksdb" / "s"]
    for database in databases:
        families = {name: rows for name, rows in read_families(database).items() if name != "offsets"}
        assert sum(1 for rows in families.values() if rows) == 2, families.keys()
    verdict = open_state(version, app, store="s", kind=kind, expected=expected)
    assert verdict.ok, verdict.difference
    assert verdict.upgrade_mode("s")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_dsl_makes_stores_that_no_other_does(version: str, tmp_path: Path) -> None:
    stores = {
        topology: make_dsl_state(version, tmp_path / topology / "app", topology=topology, store="agg")
        for topology in TOPOLOGIES
    }

    def first_bytes(topology: str, store: str) -> set[int]:
        *_, segment = sorted(stores[topology][store].iterdir())
        return {key[0] for key in read_families(segment)["default"]}

    assert first_bytes(EMIT_FINAL_WINDOW, "agg") == {0}
    assert first_bytes(EMIT_FINAL_SLIDING_WINDOW, "agg") == {0, 1}  # with an index
    assert first_bytes(EMIT_FINAL_SESSION, "agg") == {0, 1}
    lists = read_families(stores[OUTER_JOIN]["agg-outer-shared-join-store"])["default"]
    assert lists
    assert all(value[0] == 1 for value in lists.values())
    subscriptions = read_families(stores[FOREIGN_KEY]["agg-subscription-store"])["keyValueWithTimestamp"]
    assert all(key[:4] == b"\x00\x00\x00\x02" for key in subscriptions)
    assert len(subscriptions) == 20
