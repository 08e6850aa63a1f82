"""The Java program makes and opens every kind of store, and finds what is wrong with one."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.live.kafka_streams import kinds
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
from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS, VERSIONS, segment_interval, versions_of
from tests.live.kafka_streams.program import Verdict, make_half_upgraded, make_state, open_state, require_live
from tests.support import read_families

RECORDS = 600
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

    def open(self, *stores: str, expected: Path | None = None) -> Verdict:
        first, *others = stores
        return open_state(
            self.version,
            self.app_dir,
            store=first,
            kind=first,
            expected=expected or self.expected,
            other_stores={store: store for store in others},
            retention_ms=RETENTION_MS,
        )


@pytest.fixture(scope="module", autouse=True)
def _live() -> None:
    require_live()


@pytest.fixture(scope="module", params=VERSIONS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(request.param, tmp_path_factory.mktemp("state") / "app")


@pytest.fixture(scope="module")
def made_4_3(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make("4.3.1", tmp_path_factory.mktemp("state") / "app")


def make(version: str, app_dir: Path) -> Made:
    stores = [kind for kind in KINDS if version in versions_of(kind)]
    others = {store: store for store in stores[1:]}
    expected = make_state(
        version,
        app_dir,
        store=stores[0],
        kind=stores[0],
        tasks=len(TASKS),
        records=RECORDS,
        seed=17,
        other_stores=others,
    )
    return Made(version, app_dir, expected)


def rows_of(made: Made, store: str, task: str) -> list[Row]:
    return read_expected(made.expected / task / f"{store}.jsonl.gz")


def test_every_kind_opens_as_it_was_made(made: Made) -> None:
    verdict = made.open(*made.stores())
    assert verdict.ok, verdict.difference
    for store in made.stores():
        rows = [row for task in TASKS for row in rows_of(made, store, task)]
        assert verdict.records(store) == sum(row.value is not None for row in rows)
        assert verdict.records(store) > RECORDS
        assert not verdict.upgrade_mode(store)


def test_segments_lie_where_kafka_streams_looks_for_them(made: Made) -> None:
    interval = segment_interval(RETENTION_MS)
    for kind in made.stores():
        segments = made.app_dir / "0_0" / kind
        assert segments.is_dir() == KINDS[kind].segmented
        if KINDS[kind].segmented:
            times = {row.start if row.end is None else row.end for row in rows_of(made, kind, "0_0")}
            used = {f"{kind}.{time // interval * interval}" for time in times if time is not None}
            assert len(used) >= 3
            assert used <= {path.name for path in segments.iterdir()}


@pytest.mark.parametrize("store", KINDS)
def test_a_changed_value_is_a_difference_in_every_kind(made_4_3: Made, tmp_path: Path, store: str) -> None:
    rows = rows_of(made_4_3, store, "0_1")
    at = next(at for at, row in enumerate(rows) if row.value)
    rows[at] = replace(rows[at], value=b"another")
    assert rows[at].key.hex() in difference(made_4_3, tmp_path, store, rows)


@pytest.mark.parametrize("store", [kind for kind, held in KINDS.items() if held.headers])
def test_changed_headers_are_a_difference(made_4_3: Made, tmp_path: Path, store: str) -> None:
    rows = rows_of(made_4_3, store, "0_1")
    at = next(at for at, row in enumerate(rows) if row.headers and row.headers[0][1] is None)
    rows[at] = replace(rows[at], headers=(("h", b""),))  # empty, not null
    assert "with headers [h=(empty)], found" in difference(made_4_3, tmp_path, store, rows)


@pytest.mark.parametrize("store", [kind for kind, held in KINDS.items() if held.shape != "key-value"])
def test_a_missing_record_is_a_difference(made_4_3: Made, tmp_path: Path, store: str) -> None:
    rows = rows_of(made_4_3, store, "0_1")
    at = next(at for at, row in enumerate(rows) if row.value and rows[at - 1].key == row.key)
    stray = rows.pop(at)
    assert stray.key.hex() in difference(made_4_3, tmp_path, store, rows)


def difference(made: Made, folder: Path, store: str, rows: list[Row]) -> str:
    """What is found if the second task must hold these rows."""
    expected = folder / "expected"
    shutil.copytree(made.expected, expected)
    write_expected(expected / "0_1" / f"{store}.jsonl.gz", rows)
    verdict = made.open(store, expected=expected)
    assert not verdict.ok
    assert str(verdict.difference).startswith(f"0_1/{store}: ")
    return str(verdict.difference)


def test_a_segment_in_a_directory_of_another_time_is_a_difference(made_4_3: Made, tmp_path: Path) -> None:
    copy = Made("4.3.1", tmp_path / "app", made_4_3.expected)
    shutil.copytree(made_4_3.app_dir, copy.app_dir)
    *_, last = sorted((copy.app_dir / "0_1" / kinds.SESSION).iterdir())
    start = int(last.name.rpartition(".")[2])
    last.rename(last.with_name(f"{kinds.SESSION}.{start + segment_interval(RETENTION_MS)}"))
    assert str(copy.open(kinds.SESSION).difference).startswith("0_1/session: ")


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
