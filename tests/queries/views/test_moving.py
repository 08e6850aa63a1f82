"""Views of stores that are replaced, upgraded or half migrated while they are read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from formats.serdes.text import StringSerde
from migrate import Stores, cutover, run
from migrate.errors import StateStoreMigratedError
from migrate.queries.open.partition import Opened, Partition, StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.composite import KeyValue, QueryIterator, ValueAndTimestamp
from migrate.queries.views.key_value_view import KeyValueView
from migrate.queries.views.view_types import QueryableStoreTypes as Types
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.openings import HeldDirectory, open_held
from tests.queries.open.test_migration import KilledError, kill_at
from tests.queries.views.made import NAME, PLACE, former, found, key_value, latest, replace_by, segmented, stores
from tests.shared.windowed import session_key, window_key
from tests.support import KEY_VALUE, TIMESTAMPED, kafka_spec, make_families, make_store

MANY = {b"%04d" % number: b"old" for number in range(1000)}
Replace = Callable[[], None]


@pytest.mark.parametrize("read", [0, 1, 16, 17, 500, 1000])
def test_an_iterator_gives_nothing_more_once_the_store_is_replaced(read: int, tmp_path: Path) -> None:
    """But what it had pulled before, up to 256 records."""
    app = key_value(tmp_path, MANY)
    scan = stores(app, KEY_VALUE).store(NAME, Types.key_value()).all()
    before = [next(scan) for _ in range(read)]
    replace_by(app, dict.fromkeys(MANY, b"new"))
    after: list[KeyValue] = []
    with pytest.raises(StateStoreMigratedError, match="resolve it again"):
        after.extend(iter(lambda: next(scan), None))
    assert {each.value for each in (*before, *after)} <= {b"old"}
    assert len(after) <= 256


def test_an_iterator_that_was_begun_before_reads_nothing_of_the_other_store(tmp_path: Path) -> None:
    app = key_value(tmp_path, MANY)
    view = stores(app, KEY_VALUE).store(NAME, Types.key_value())
    scan = view.range(b"0001")
    replace_by(app, dict.fromkeys(MANY, b"new"))
    for ask in (lambda: next(scan), view.all, lambda: view.get(b"0001"), view.approximate_num_entries):
        with pytest.raises(StateStoreMigratedError):
            ask()
    assert stores(app, KEY_VALUE).store(NAME, Types.key_value()).get(b"0001") == b"new"


class Replaced:
    """A store partition that is replaced between a read and the check of it."""

    def __init__(self, partition: Partition, exchange: Replace) -> None:
        self._partition, self._exchange = partition, exchange
        self.id, self.number = partition.id, partition.number

    def opened(self) -> Opened:
        return self._partition.opened()

    recent = opened

    def check(self) -> None:
        self._exchange()
        self._partition.check()


GETS: dict[str, tuple[Any, Any, Callable[[Any], object]]] = {
    "key-value": (Types.key_value(), KEY_VALUE, lambda view: view.get(b"a")),
    "absent": (Types.key_value(), KEY_VALUE, lambda view: view.get(b"x")),
    "window": (Types.window(), "kafka-streams.window", lambda view: view.fetch(b"a", 5)),
    "no window": (Types.window(), "kafka-streams.window", lambda view: view.fetch(b"a", 6)),
    "session": (Types.session(), "kafka-streams.session", lambda view: view.fetch_session(b"a", 5, 6)),
    "no session": (Types.session(), "kafka-streams.session", lambda view: view.fetch_session(b"a", 5, 7)),
    "versioned": (Types.versioned(), "kafka-streams.versioned", lambda view: view.get(b"a")),
    "former": (Types.versioned(), "kafka-streams.versioned", lambda view: view.get(b"a", 3)),
}


@pytest.mark.parametrize("case", GETS)
def test_an_answer_read_while_the_store_is_replaced_is_none(case: str, tmp_path: Path) -> None:
    kind, format, get = GETS[case]
    if kind.kind in ("window", "session"):
        key = window_key(b"a", 5) if kind.kind == "window" else session_key(b"a", 5, 6)
        app = segmented(tmp_path, {0: {key: b"old"}})
        place = app / "0_0" / NAME
    else:
        records = {b"a": b"old"}
        if kind.kind == "versioned":
            records = dict([latest(b"a", 9, b"old"), former(0, b"a", 9, (1, b"older"))])
        app = key_value(tmp_path, records)
        place = app / PLACE
    partition = stores(app, format).partitions(NAME)[0]
    definition = StoreDefinition(format)
    assert (get(kind.view(NAME, [partition], definition)) is None) == case.startswith(("absent", "no "))
    wrapped = Replaced(partition, lambda: _exchange(place))
    with pytest.raises(StateStoreMigratedError):
        get(kind.view(NAME, [wrapped], definition))


def _exchange(place: Path) -> None:
    if place.exists():
        place.rename(place.with_name("aside"))
    make_store(place, {})


def test_in_the_middle_of_a_cut_over_each_partition_is_read_in_its_own_format(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"a": b"0"}, {b"b": b"1"}, {b"c": b"2"})
    spec = kafka_spec(tmp_path, app, source={"stores": [NAME]}, target={"path": None})
    run(spec)
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.exchanged", 2))
    opened = QueryableStores.of_migration(spec)
    ids = [each.opened().format.id for each in opened.partitions(NAME)]
    assert ids == [TIMESTAMPED, TIMESTAMPED, KEY_VALUE]
    view: KeyValueView = opened.store(NAME, Types.key_value())
    assert found(view.all()) == [(b"a", b"0"), (b"b", b"1"), (b"c", b"2")]
    assert [view.get(key) for key in (b"a", b"b", b"c")] == [b"0", b"1", b"2"]


def test_records_from_before_an_upgrade_have_no_timestamp_yet(tmp_path: Path) -> None:
    folder = tmp_path / "app" / PLACE
    folder.parent.mkdir(parents=True)
    new = {b"a": (7).to_bytes(8, "big") + b"new", b"c": (8).to_bytes(8, "big") + b"new"}
    make_families(folder, {"default": {b"a": b"old", b"b": b"old"}, "keyValueWithTimestamp": new})
    opened = stores(tmp_path / "app", TIMESTAMPED)
    view = opened.store(NAME, Types.timestamped_key_value())
    expected = [(b"a", ValueAndTimestamp(b"new", 7)), (b"b", ValueAndTimestamp(b"old", -1))]
    assert found(view.range(b"a", b"b")) == expected
    assert found(view.reverse_range(None, b"b")) == expected[::-1]
    assert [view.get(key) for key in (b"a", b"b")] == [each[1] for each in expected]
    assert found(opened.store(NAME, Types.key_value()).prefix_scan(b"b")) == [(b"b", b"old")]


def test_an_adapters_windows_expire_as_its_process_writes(tmp_path: Path) -> None:
    folder = make_store(tmp_path / "segment", {window_key(b"a", 1): b"1", window_key(b"a", 5): b"2"})
    definition = StoreDefinition("kafka-streams.timestamped-window", retention_ms=10)
    with Stores() as opened:
        store = opened.open(NAME, folder, source="kafka-streams.window", target=definition.format)
        view = QueryableStores.of_adapter(opened, {NAME: definition}).store(NAME, Types.window())
        assert [each.time for each in view.fetch(b"a", 0, 100)] == [1, 5]
        store.put(window_key(b"b", 11), bytes(8) + b"3")
        assert [each.time for each in view.fetch(b"a", 0, 100)] == [5]


def test_of_two_databases_the_old_one_is_opened_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that moves in between is then in both, and never in neither."""
    app = key_value(tmp_path, MANY)
    old = (app / PLACE).rename(app / PLACE.with_name("before"))
    _converge(app, old)

    def moving(directory: HeldDirectory) -> Database:
        found = open_held(directory)
        _converge(app, old)
        return found

    monkeypatch.setattr("migrate.queries.open.partition.open_held", moving)
    view = stores(app, TIMESTAMPED, refresh=60).store(NAME, Types.key_value())
    assert [key for key in MANY if view.get(key) != b"old"] == []
    assert dict(view.all()) == MANY


def _converge(app: Path, old: Path) -> None:
    with Stores() as opened:
        store = opened.open(NAME, app / PLACE, source=KEY_VALUE, target=TIMESTAMPED, old_path=old)
        store.converge(100, None)


def test_streamiz_values_are_read_with_their_timestamps(tmp_path: Path) -> None:
    value = (9).to_bytes(8, "little") + (1).to_bytes(4, "little") + b"x"
    app = key_value(tmp_path, {b"a": value})
    (app / "0_0").rename(app / "0-0")
    opened = stores(app, "streamiz.timestamped-key-value", key=StringSerde())
    assert opened.store(NAME, Types.timestamped_key_value()).get("a") == ValueAndTimestamp(b"x", 9)
    assert opened.store(NAME, Types.key_value()).get("a") == b"x"


def test_an_iterators_files_are_held_until_it_ends(tmp_path: Path) -> None:
    app = key_value(tmp_path, MANY)
    scan: QueryIterator[Any] = stores(app, KEY_VALUE).store(NAME, Types.key_value()).all()
    assert next(scan) == (b"0000", b"old")
    for table in (app / PLACE).glob("*.sst"):
        table.unlink()
    assert sum(1 for _ in scan) == len(MANY) - 1
