"""What is Faust's own in dual reading: two topics without an order, partitions that come and go, and its mapping."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import faust
import pytest
from faust.types import TP
from prometheus_client import CollectorRegistry
from rocksdict import Options, Rdict
from yarl import URL

from migrate import ConversionError, RefusedError, StoreMetrics
from migrate.processors.faust import DualTable
from tests.live.faust.tables import event_in
from tests.processors.faust_host import PARTITIONS, Log, Worker, both, partition_of
from tests.support import raises

KEYS = [f"k{number}" for number in range(8)]
Sums = DualTable[str, Any, int]


class Group:
    """What outlives a worker: the disk, and the changelogs. The old code left each key its number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs: dict[TP, Log] = defaultdict(list)
        self.workers: list[Worker] = []
        old = self.start(both)
        for number, key in enumerate(KEYS):
            with at(old, key):
                old.made[1][key] = number
        old.settle()
        old.stop()

    def start(self, declare: Callable[[faust.App], Any], *, wiped: bool = False) -> Worker:
        for worker in self.workers:
            worker.stop()
        folder = self.folder / f"{len(self.workers)}" if wiped else self.folder
        self.workers = [Worker(folder, self.logs, declare)]
        return self.workers[0]

    def dual(self, **options: Any) -> tuple[Worker, Sums]:  # noqa: ANN401 - of DualTable
        worker = self.start(lambda app: DualTable(*both(app), as_sum, share=1, **options))
        return worker, worker.made

    def add_old(self, count: int) -> list[str]:
        """So many more keys, all of partition 0."""
        keys = [f"many{number}" for number in range(count)]
        old = self.start(both)
        for key in keys:
            with event_in(old.app, 0):
                old.made[1][key] = 1
        old.settle()
        return keys

    def rebuilt(self) -> tuple[dict[str, int], dict[str, Any]]:
        """The old and the new table, on another disk."""
        new, old = self.start(both, wiped=True).made
        return dict(old.items()), dict(new.items())


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    monkeypatch.setattr("migrate.processors.faust._STOPS_WITHIN", 0)
    group = Group(tmp_path)
    yield group
    for worker in group.workers:
        worker.stop()


def as_sum(old: int) -> dict[str, int]:
    return {"sum": old}


def at(worker: Worker, key: str) -> AbstractContextManager[None]:
    """In an event of this key."""
    return event_in(worker.app, partition_of(key))


def converge(worker: Worker, table: Sums) -> None:
    while not table.is_converged:
        table.converge()
        worker.settle()


def topics(sent: list[Any]) -> list[tuple[str, int, bytes | None]]:
    return [(each.message.channel.get_topic_name(), each.message.partition, each.message.value) for each in sent]


def test_an_old_copy_goes_once_the_new_one_is_confirmed(group: Group) -> None:
    worker, table = group.dual()
    with at(worker, "k1"):
        table["k1"] = {"sum": 10}
    sent = worker.pending
    partition = partition_of("k1")
    assert topics(sent) == [("sums-totals-changelog", partition, b'{"sum":10}')]
    table._let_go()
    assert worker.pending == []
    worker.confirm(sent[0])
    table._let_go()
    assert topics(worker.pending) == [("sums-counts-changelog", partition, None)]
    assert "k1" not in table._old.table


def test_a_new_value_that_was_not_confirmed_keeps_its_old_copy_until_it_is(group: Group) -> None:
    worker, table = group.dual()
    with at(worker, "k1"):
        table["k1"] = {"sum": 10}
    worker.pending[0].set_exception(ConnectionError("no broker"))
    table._let_go()
    assert worker.pending == []
    converge(worker, table)
    assert group.rebuilt() == ({}, {key: as_sum(number) for number, key in enumerate(KEYS)} | {"k1": {"sum": 10}})


def test_what_a_kill_left_in_the_database_alone_is_sent_before_the_old_copy_goes(group: Group) -> None:
    _, table = group.dual()
    table.converge()  # and none of it reaches the broker
    worker, table = group.dual()
    converge(worker, table)
    assert table.progress.superseded == len(KEYS)
    assert group.rebuilt() == ({}, {key: as_sum(number) for number, key in enumerate(KEYS)})


def test_old_copies_that_are_about_to_go_are_no_second_values(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    worker, table = group.dual()
    table.converge()
    for key in KEYS:
        with at(worker, key):
            table[key] = {"sum": 0}
    table.converge()
    converge(worker, table)
    assert (table.progress.superseded, table.progress.moved_by_converge) == (0, len(KEYS))
    assert "has a new and an old value" not in caplog.text


@pytest.mark.parametrize("converged", [False, True])
@pytest.mark.parametrize("how", ["del", "pop with a default", "pop"])
def test_a_delete_goes_to_both_changelogs_whatever_is_on_the_disk(how: str, converged: bool, group: Group) -> None:
    worker, table = group.dual()
    if converged:
        converge(worker, table)
    with at(worker, "new"):
        if how == "del":
            del table["new"]
        elif how == "pop":
            raises(KeyError, "new", table.pop, "new")
        else:
            assert table.pop("new", None) is None
    partition = partition_of("new")
    assert topics(worker.pending) == [
        ("sums-counts-changelog", partition, None),
        ("sums-totals-changelog", partition, None),
    ]


def test_nothing_is_looked_at_before_the_restore_is_over(group: Group) -> None:
    worker, table = group.dual()
    converge(worker, table)
    worker.stop()
    other = Worker(group.folder / "elsewhere", group.logs, lambda app: DualTable(*both(app), as_sum), restored=False)
    group.workers = [other]
    table = other.made
    table.converge()  # of empty databases
    assert not table.is_converged
    other.restore()
    assert not table.is_converged
    table.converge()
    assert table.is_converged


def test_the_end_of_an_earlier_restore_says_nothing_of_the_next_assignment(group: Group) -> None:
    """Faust may say that partitions are ready when they have been taken away already."""
    worker, table = group.dual()
    converge(worker, table)
    worker.assign(PARTITIONS)
    worker.ready()
    assert not table.is_converged
    table.converge()
    assert not table.is_converged
    worker.restore()
    table.converge()
    assert table.is_converged


def test_standbys_are_never_swept(group: Group) -> None:
    worker, table = group.dual()
    worker.assign((0,), standby=(1,))
    worker.restore()
    converge(worker, table)
    worker.assign(PARTITIONS)
    worker.restore()
    assert {partition_of(key) for key in table._old.table} == {1}
    assert {tp.partition for tp in worker.logs if tp.topic == "sums-totals-changelog"} == {0}


def test_it_converges_in_the_keys_own_partitions_whatever_event_is_handled(group: Group) -> None:
    worker, table = group.dual()
    with event_in(worker.app, 0):
        table.converge()
        assert {key: table.get(key) for key in KEYS} == {
            key: as_sum(number) if partition_of(key) == 0 else None for number, key in enumerate(KEYS)
        }
    sent: list[Any] = worker.pending
    assert sorted(each.message.partition for each in sent) == sorted(map(partition_of, KEYS))
    for each in sent:
        assert partition_of(each.message.key.decode().strip('"')) == each.message.partition


def test_what_has_converged_rests_until_the_partitions_change(group: Group) -> None:
    worker, table = group.dual()
    converge(worker, table)
    old, untouchable = table._old, object()
    vars(table)["_old"] = untouchable
    with at(worker, "k1"):
        table["k1"] = {"sum": 10}
        assert (table["k1"], "k1" in table, table.get("new"), "new" in table) == ({"sum": 10}, True, None, False)
    table.converge()
    vars(table)["_old"] = old
    worker.assign(PARTITIONS)
    worker.restore()
    assert not table.is_converged
    vars(table)["_old"] = untouchable
    with at(worker, "new"):
        raises(AttributeError, "raw", table.get, "new")
    vars(table)["_old"] = old


def test_nothing_is_kept_of_a_database_between_two_slices(group: Group) -> None:
    """Faust closes a database by letting it go, and only then another worker on this host can open it."""
    worker, table = group.dual(per_checkpoint=1)
    table.converge()
    worker.assign(())
    for name in ("counts", "totals"):
        for partition in PARTITIONS:
            Rdict(str(worker.app.conf.tabledir / f"{name}-{partition}.db"), Options(raw_mode=True)).close()
    assert not table.is_converged


def test_an_old_copy_stays_while_its_partition_goes(group: Group) -> None:
    """A record of it might reach the changelog after those of the next owner."""
    worker, table = group.dual()
    table.converge()
    sent = worker.pending
    worker.assign(())
    for each in sent:
        worker.confirm(each)
    table._let_go()
    assert worker.pending == []
    worker.restore()
    worker.assign(PARTITIONS)
    worker.restore()
    converge(worker, table)
    assert group.rebuilt() == ({}, {key: as_sum(number) for number, key in enumerate(KEYS)})


def test_a_rebalance_that_leaves_the_partitions_is_no_reason_to_warn(group: Group) -> None:
    worker, table = group.dual()
    table.converge()
    worker.app.on_rebalance_start()
    worker.settle()
    worker.assign(PARTITIONS)
    worker.restore()
    converge(worker, table)
    assert table.progress.superseded == 0


def test_it_is_a_mapping_over_all_active_partitions_inside_an_event_and_outside(group: Group) -> None:
    worker, table = group.dual(may_drop=True)
    for key in ("k1", "new"):
        with at(worker, key):
            table[key] = {"sum": 10}
    with at(worker, "k2"):
        del table["k2"]
        assert table.setdefault("k2", {"sum": 20}) == {"sum": 20}
        assert table.setdefault("k2", {"sum": 30}) == {"sum": 20}
        table.update(k2={"sum": 21})
    expected = {key: as_sum(number) for number, key in enumerate(KEYS)}
    expected |= {"k1": {"sum": 10}, "new": {"sum": 10}, "k2": {"sum": 21}}
    with at(worker, "k1"):
        _check_views(table, expected)
    _check_views(table, expected)
    assert {key: table[key] for key in expected} == expected
    converge(worker, table)
    _check_views(table, expected)
    raises(TypeError, "outside of stream iteration", table.__setitem__, "k1", {})
    raises(TypeError, "outside of stream iteration", table.__delitem__, "k1")
    raises(NotImplementedError, "delete its keys", table.clear)


def _check_views(table: Sums, expected: Mapping[str, Any]) -> None:
    assert (dict(table.items()), set(table), len(table)) == (expected, set(expected), len(expected))
    assert sorted(each["sum"] for each in table.values()) == sorted(each["sum"] for each in expected.values())
    assert sorted(table.keys()) == sorted(expected)


def test_a_default_of_the_table_stays(group: Group) -> None:
    def declare(app: faust.App) -> Sums:
        new = app.Table("totals", key_type=str, default=dict, partitions=len(PARTITIONS))
        return DualTable(new, app.Table("counts", key_type=str, value_type=int, partitions=len(PARTITIONS)), as_sum)

    worker = group.start(declare)
    with at(worker, "new"):
        assert worker.made["new"] == {}
    with at(worker, "k3"):
        assert worker.made["k3"] == {"sum": 3}


def test_values_that_are_not_json_are_rejects(group: Group) -> None:
    worker, table = group.dual(on_reject="quarantine")
    store: Any = worker.app.tables["counts"]
    store.data._dbs[partition_of("k5")].put(b'"k5"', b"\xff")
    with at(worker, "k5"):
        error = raises(ConversionError, "convert raised ValueDecodeError", table.get, "k5")
    assert error.key == b"k5|counts"
    for _ in range(3):
        table.converge()
        worker.settle()
    assert not table.is_converged
    assert [key for key, _ in table.rejects()] == [b"k5|counts"]
    with at(worker, "k5"):
        table["k5"] = {"sum": 5}
    converge(worker, table)
    assert table.rejects() == []


def test_a_value_that_stopped_a_slice_is_forgotten_once_it_is_written(group: Group) -> None:
    worker, table = group.dual()
    for key in KEYS:
        if partition_of(key) == partition_of("k1") and key != "k1":
            with at(worker, key):
                del table[key]
    store: Any = worker.app.tables["counts"]
    store.data._dbs[partition_of("k1")].put(b'"k1"', b"\xff")
    assert raises(ConversionError, "convert raised ValueDecodeError", converge, worker, table).key == b"k1|counts"
    with at(worker, "k1"):
        table["k1"] = {"sum": 10}
    for _ in range(5):
        worker.settle()
        table.converge()
    assert table.is_converged


def test_a_new_value_that_cannot_be_written_is_a_reject(group: Group) -> None:
    worker = group.start(lambda app: DualTable(*both(app), lambda old: object()))
    raises(ConversionError, "cannot be converted", worker.made.converge)
    assert worker.pending == []
    assert not worker.made.is_converged


def test_a_slow_conversion_does_not_hold_the_loop(group: Group) -> None:
    def slow(old: int) -> dict[str, int]:
        time.sleep(0.06)
        return as_sum(old)

    worker = group.start(lambda app: DualTable(*both(app), slow))
    worker.made.converge()
    assert len(worker.pending) == 1


def test_no_more_wait_for_the_producer_than_faust_lets_without_a_stop(group: Group) -> None:
    group.add_old(300)
    worker, table = group.dual()
    for _ in range(5):
        table.converge()
    assert len(worker.pending) == 100


def test_old_copies_that_go_behind_writes_go_together(group: Group) -> None:
    """Their deletes share requests to the broker; and they go too where nothing is moved meanwhile."""
    many = group.add_old(120)
    worker, table = group.dual()
    deletes = []
    for key in many:
        with event_in(worker.app, 0):
            table[key] = {"sum": 2}
        sent = worker.pending
        worker.confirm(sent[0])
        deletes.append(len(sent) - 1)
    assert [number for number in deletes if number] == [49, 49]


def test_old_copies_go_only_while_the_producer_has_room(group: Group) -> None:
    many = group.add_old(150)
    worker, table = group.dual()
    for key in many:
        with event_in(worker.app, 0):
            table[key] = {"sum": 2}
    for sent in (all_sent := worker.pending):
        worker.confirm(sent)
    for sent in all_sent[:70]:
        worker.app.producer.buffer.put(sent)
    for _ in range(2):
        table._let_go()
        assert worker.app.producer.buffer.size == 100
    assert topics(worker.pending[-30:]) == [("sums-counts-changelog", 0, None)] * 30


def test_a_table_in_memory_converges_as_it_is_written(group: Group) -> None:
    def declare(app: faust.App) -> Sums:
        app.conf.store = URL("memory://")
        return DualTable(*both(app), as_sum)

    worker = group.start(declare)
    table = worker.made
    table.converge()
    assert dict(table.items()) == {key: as_sum(number) for number, key in enumerate(KEYS)}
    for number, key in enumerate(KEYS):
        assert not table.is_converged
        with at(worker, key):
            table[key] = {"sum": table[key]["sum"] + number}
    worker.settle()
    table.converge()
    assert table.is_converged
    worker.settle()
    assert group.rebuilt() == ({}, {key: as_sum(2 * number) for number, key in enumerate(KEYS)})


def test_a_new_table_in_memory_takes_what_is_on_the_disk(group: Group) -> None:
    def declare(app: faust.App) -> Sums:
        new = app.Table("totals", key_type=str, partitions=len(PARTITIONS), store="memory://here")
        old = app.Table("counts", key_type=str, value_type=int, partitions=len(PARTITIONS))
        return DualTable(new, old, as_sum, share=1)

    worker = group.start(declare)
    with at(worker, "k1"):
        worker.made["k1"] = {"sum": 10}
    converge(worker, worker.made)
    assert group.rebuilt() == ({}, {key: as_sum(number) for number, key in enumerate(KEYS)} | {"k1": {"sum": 10}})


def test_partitions_that_are_not_open_yet_have_no_keys(group: Group) -> None:
    """As in a table of Faust: a view may be asked for while an assignment is taken over."""
    _, table = group.dual()
    for each in (table._old, table._new):
        each._store._dbs.clear()
    assert (list(table), dict(table.items()), len(table)) == ([], {}, 0)


def test_tables_of_different_partitions_are_refused_before_a_value_is_missed(group: Group) -> None:
    def declare(app: faust.App) -> Sums:
        return DualTable(app.Table("of_three", key_type=str), app.Table("counts", key_type=str, value_type=int), as_sum)

    worker = group.start(declare)
    assert worker.app.crashed
    raises(RefusedError, "has 2 partitions and sums-of_three-changelog has 3", worker.made.converge)
    with at(worker, "k1"):
        raises(RefusedError, "partitions", worker.made.get, "k1")


def test_one_sees_how_far_it_is(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    worker, table = group.dual()
    assert table.progress.old_keys_left == len(KEYS)
    registry = CollectorRegistry()
    registry.register(StoreMetrics({"totals": table}))
    shown = partial(registry.get_sample_value, labels={"store": "totals"})
    assert (shown("stateferry_store_old_keys_left"), shown("stateferry_store_converged")) == (len(KEYS), 0)
    converge(worker, table)
    table.converge()
    assert (shown("stateferry_store_old_keys_left"), shown("stateferry_store_converged")) == (0, 1)
    said = [record.message for record in caplog.records if record.name.startswith("migrate.")]
    assert said[:2] == [
        f"partition {each} of the Faust table 'counts' has converged: no old value is left in it" for each in (0, 1)
    ]
    assert ["take the adapter out" in line for line in said] == [False, False, True]


def test_nothing_assigned_is_not_converged(group: Group) -> None:
    worker, table = group.dual()
    converge(worker, table)
    worker.assign(())
    worker.restore()
    table.converge()
    assert not table.is_converged


def test_taken_out_too_early_the_new_code_begins_at_its_default(group: Group) -> None:
    new, _ = group.start(both).made
    assert "k1" not in new


def test_a_rebalance_that_begins_holds_the_sweep(group: Group) -> None:
    """Its partitions may be another worker's in a moment."""
    worker, table = group.dual()
    worker.app.on_rebalance_start()
    table.converge()
    assert worker.pending == []
    assert not table.is_converged
