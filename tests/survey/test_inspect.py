"""`inspect` reports the content of directories, read-only."""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from migrate import DualReadStore, RefusedError, inspect, load_spec, run
from migrate.errors import CorruptionError
from migrate.survey.inspect_report import InspectReport
from tests.shared.commands import CommandServer
from tests.shared.locks import OPEN_STORE, another_process
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    Tables,
    copy_fixture,
    fixture_records,
    flip_byte,
    make_families,
    make_store,
    numbered,
    to_toml,
    tree_state,
)

VERSIONED = "kafka-streams.versioned"
ROOT = Path(__file__).resolve().parents[2]
WRITE = """
import itertools, sys, time
from rocksdict import Options, Rdict
options = Options(raw_mode=True)
options.set_write_buffer_size(1 << 16)
database = Rdict(sys.argv[1], options)
for number in itertools.count():
    database[b"%08d" % (number % 5000)] = bytes(1000)
    if number % 64 == 0 and number > 5000:
        time.sleep(0.02)
    if number == 5000:
        print("held", flush=True)
"""


def sentences(report: InspectReport) -> list[str]:
    return [place.sentence for place in report.places]


def test_an_application_its_stores_and_their_records(tmp_path: Path) -> None:
    app = copy_fixture(tmp_path)
    report = inspect(app, digest=True)
    assert sentences(report) == [
        "Kafka Streams: the state directory of the application orders-app, 3 stores in 3 tasks"
    ]
    assert [(store.name, store.kind, store.records, store.exact, store.formats) for store in report.stores] == [
        ("customers", "key-value", 600, True, (TIMESTAMPED,)),
        ("orders", "key-value", 6000, True, (KEY_VALUE, VERSIONED)),
        ("refunds", "key-value", 600, True, (KEY_VALUE, VERSIONED)),
    ]
    orders = next(database for database in report.databases if database.path == "0_1/rocksdb/orders")
    assert (orders.role, orders.rocksdb_version, orders.error) == ("store orders, task 0_1", "9.7.3", None)
    (family,) = orders.families
    assert (family.comparator, family.merge_operator, family.compression, family.format_version) == (
        "leveldb.BytewiseComparator",
        None,
        "kNoCompression",
        6,
    )
    first = fixture_records("0_1", "orders")[:3]
    assert [bytes.fromhex(record.key.hex) for record in family.samples] == [key for key, _, _ in first]
    assert [bytes.fromhex(record.value.hex) for record in family.samples] == [value for _, value, _ in first]
    assert [record.key.text for record in family.samples] == [key.decode() for key, _, _ in first]


@pytest.mark.parametrize(
    ("part", "sentence", "databases"),
    [
        ("..", "Kafka Streams: a state.dir with the application orders-app", 9),
        ("0_1", "Kafka Streams: the directory of task 0_1, of the application orders-app in ", 3),
        ("0_1/rocksdb", "Kafka Streams: rocksdb in the directory of task 0_1, of the application orders-app in ", 3),
        ("0_1/rocksdb/orders", "Kafka Streams: rocksdb/orders in the directory of task 0_1, of the application ", 1),
    ],
)
def test_every_part_of_an_application_is_described(tmp_path: Path, part: str, sentence: str, databases: int) -> None:
    report = inspect(copy_fixture(tmp_path) / part)
    assert sentences(report)[0].startswith(sentence)
    assert len(report.databases) == databases
    assert {store.name for store in report.stores} <= {"customers", "orders", "refunds"}


def test_several_applications_in_one_state_dir(tmp_path: Path) -> None:
    app = copy_fixture(tmp_path)
    app.rename(tmp_path / "first")
    copy_fixture(tmp_path).rename(tmp_path / "second")
    report = inspect(tmp_path)
    assert sentences(report)[0] == "Kafka Streams: a state.dir with the applications first, second"
    assert len(report.stores) == 6


def test_named_topologies_and_segments(tmp_path: Path) -> None:
    task = tmp_path / "app" / "__billing__" / "1_0"
    make_store(task / "rocksdb/totals", numbered(10))
    for start in (1_767_225_600_000, 1_767_229_200_000, 999_999_999_999_999_999):
        make_store(task / f"hourly/hourly.{start}", numbered(5))
    (task / "hourly" / "hourly.bak").mkdir()
    (task / "rocksdb/lost").mkdir()
    report = inspect(tmp_path / "app")
    hourly, totals = report.stores
    assert (hourly.kind, hourly.segments, hourly.store_partitions) == (
        "windowed or session",
        3,
        ("__billing__/1_0/hourly",),
    )
    assert hourly.formats == ("kafka-streams.session", "kafka-streams.window")
    assert totals.formats == (KEY_VALUE, VERSIONED)
    assert [database.role for database in report.databases][:2] == [
        "store hourly, task __billing__/1_0, segment 2026-01-01 00:00:00 UTC",
        "store hourly, task __billing__/1_0, segment 2026-01-01 01:00:00 UTC",
    ]
    assert report.databases[2].role.endswith("segment 999999999999999999 ms since 1970")
    assert f"{task / 'hourly/hourly.bak'} lies among segments: " in report.warnings[0]
    assert f"{task / 'rocksdb/lost'} holds no RocksDB files" in report.warnings
    assert sentences(inspect(task))[0].startswith("Kafka Streams: the directory of task __billing__/1_0, of the app")


def test_metadata_is_described_in_words(tmp_path: Path) -> None:
    position = bytes(202)
    offsets = {b"app-s-changelog-0": struct.pack(">q", 6167), b"status": struct.pack(">q", 0), b"position": position}
    make_families(tmp_path / "s", {"default": numbered(3), "offsets": offsets})
    (database,) = inspect(tmp_path / "s").databases
    family = next(family for family in database.families if family.name == "offsets")
    assert family.entries == (
        "app-s-changelog-0: offset 6167",
        "position: 202 bytes",
        "status: closed",
    )
    assert KEY_VALUE in database.formats


def test_nothing_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "links").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "links"))
    app = copy_fixture(tmp_path)
    before = tree_state(app)
    inspect(app, digest=True)
    assert tree_state(app) == before
    assert list((tmp_path / "links").iterdir()) == []


def test_a_running_owner_is_named_and_left_alone(tmp_path: Path, commands: CommandServer) -> None:
    store = make_store(tmp_path / "store", numbered(100))
    with another_process(OPEN_STORE, store) as owner:
        before = tree_state(store)
        report = inspect(store)
        shown = commands.run(["inspect", str(store)])
        assert tree_state(store) == before
    assert report.databases[0].held_by == owner
    assert [(each.pid, each.files) for each in report.owners] == [(owner, (store / "LOCK",))]
    assert shown.code == 0
    assert f"in use: process {owner} (python" in shown.out
    assert inspect(store).owners == ()


def test_it_works_beside_an_owner_that_replaces_its_files(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with subprocess.Popen([sys.executable, "-c", WRITE, store], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        names = set()
        try:
            for _ in range(30):
                (database,) = inspect(store).databases
                assert (database.error, database.held_by) == (None, owner.pid)
                names.add(frozenset(file.name for file in store.iterdir()))
        finally:
            owner.kill()
    assert len(names) > 1


def test_one_damaged_directory_hides_no_other(tmp_path: Path, commands: CommandServer) -> None:
    app = copy_fixture(tmp_path)
    next((app / "0_1/rocksdb/orders").glob("MANIFEST-*")).unlink()
    flip_byte(next((app / "0_2/rocksdb/refunds").glob("*.sst")), 100)
    report = inspect(app, digest=True)
    errors = {database.path: database.error for database in report.databases if database.error}
    assert set(errors) == {"0_1/rocksdb/orders", "0_2/rocksdb/refunds"}
    assert "lacks MANIFEST-" in str(errors["0_1/rocksdb/orders"])
    assert "checksum mismatch" in str(errors["0_2/rocksdb/refunds"])
    counted = {database.path: sum(family.records for family in database.families) for database in report.databases}
    assert counted["0_0/rocksdb/orders"] == 2022
    assert {store.name: store.exact for store in report.stores} == {
        "customers": True,
        "orders": False,
        "refunds": False,
    }
    shown = commands.run(["inspect", str(app)])
    assert shown.code == 0
    assert "0_1/rocksdb/orders cannot be read: " in shown.out
    assert "restore it from a backup" in shown.out


def test_the_one_directory_that_was_named_is_refused_where_it_is_damaged(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", numbered(5000))
    flip_byte(next(store.glob("*.sst")), 70_000)
    (database,) = inspect(store).databases
    assert (database.error, database.families[0].exact) == (None, False)
    with pytest.raises(CorruptionError, match="checksum mismatch"):
        inspect(store, digest=True)
    (store / "CURRENT").write_text("MANIFEST-000099\n")
    with pytest.raises(RefusedError, match="lacks MANIFEST-000099"):
        inspect(store)


def test_a_half_converged_store_is_reported_in_text_too(tmp_path: Path, commands: CommandServer) -> None:
    store = make_store(tmp_path / "store", numbered(50))
    with DualReadStore.open(store, source=KEY_VALUE, target=TIMESTAMPED) as opened:
        opened.converge(20, None)
    shown = commands.run(["inspect", str(store)])
    assert f"half converged from {KEY_VALUE} to {TIMESTAMPED}, about 30 records are left" in shown.out


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    """A finished migration in its work_dir."""
    make_store(tmp_path / "state", numbered(300))
    content = {
        "name": "mine",
        "work_dir": "work",
        "source": {"format": RAW, "path": "state"},
        "target": {"format": RAW},
    }
    (tmp_path / "migration.toml").write_text(to_toml(content))
    run(load_spec(tmp_path / "migration.toml"))
    return tmp_path / "work"


def test_our_own_work_dir_names_its_migrations(migrated: Path) -> None:
    before = tree_state(migrated)
    report = inspect(migrated)
    assert tree_state(migrated) == before
    (found,) = report.migrations
    assert (found.name, found.state, found.records_in, found.chunks_left) == ("mine", "verified", 300, 0)
    assert found.snapshot == migrated / "mine/snapshot"
    assert sentences(report) == ["Stateferry: the folder of the migration mine, verified"]
    roles = [database.role for database in report.databases]
    assert roles == [
        "migration mine: a new store, which no application uses, state",
        "migration mine: the snapshot that a run converts, state",
    ]


@pytest.mark.parametrize("part", [".", "mine", "mine/snapshot", "mine/snapshot/state"])
def test_every_part_of_a_migration_folder_is_described(migrated: Path, part: str) -> None:
    report = inspect(migrated / part)
    assert sentences(report) == ["Stateferry: the folder of the migration mine, verified"]


def test_a_migration_whose_plan_cannot_be_read_hides_no_other(migrated: Path, commands: CommandServer) -> None:
    (migrated / "broken/ledger").mkdir(parents=True)
    (migrated / "broken/plan-0001.json").write_text("{}")
    (migrated / "broken/stateferry-folder.json").touch()
    report = inspect(migrated)
    assert {found.name: found.state for found in report.migrations} == {"mine": "verified", "broken": None}
    assert "plan-0001.json is damaged" in commands.run(["inspect", str(migrated)]).out


def test_text_names_what_matters(tmp_path: Path, commands: CommandServer) -> None:
    store = make_families(
        tmp_path / "[bold]s", {"default": {b"k": b"v" * 300, b"<script>": b""}}, tables=Tables(compression="lz4")
    )
    shown = commands.run(["inspect", str(store)]).out
    for fact in (
        "a RocksDB directory; no name around it identifies its system",
        "comparator leveldb.BytewiseComparator, merge operator none, compression kLZ4Compression, table format 6",
        "key    <script>  3c7363726970743e  (8 bytes)",
        "value  (empty)",
        "(300 bytes)",
        "~2",
        KEY_VALUE,
        "[bold]s",
    ):
        assert fact in shown


def test_json_holds_all_of_it(tmp_path: Path, commands: CommandServer) -> None:
    shown = commands.run(["inspect", str(copy_fixture(tmp_path)), "--json"])
    report = json.loads(shown.out)
    assert report["schema_version"] == 1
    assert [store["name"] for store in report["stores"]] == ["customers", "orders", "refunds"]
    assert report == json.loads(inspect(tmp_path / "orders-app").model_dump_json())
