"""The stores of a migration by their sides, through our own verbs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import Spec, cutover, finalize, rollback, run
from migrate.errors import StateStoreMigratedError, StoreNotReadyError, UnknownStateStoreError
from migrate.model.events import Event
from migrate.queries.open.partition import Partition
from migrate.queries.stores import QueryableStores
from tests.queries.support import ORDERS, Bare, Readers, application, read, scanned, signed
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP, kafka_spec, make_store

OLD = signed(b"A")
NEW = {key: UNKNOWN_TIMESTAMP + value for key, value in OLD.items()}
KEY = b"key-000007"


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    app = application(tmp_path)
    for task in ("0_1", "0_2"):
        (app / task / "rocksdb").mkdir(parents=True)
        make_store(app / task / "rocksdb" / "orders", OLD)
    return kafka_spec(tmp_path, app)


def sides(spec: Spec) -> dict[str, list[Partition]]:
    return {side: partitions(spec, side) for side in ("live", "old", "new")}


def partitions(spec: Spec, side: str) -> list[Partition]:
    return QueryableStores.of_migration(spec, side, refresh=0).store("orders", Bare())  # type: ignore[arg-type]


def formats(spec: Spec, side: str) -> list[str]:
    found = partitions(spec, side)
    for each in found:
        assert scanned(each) == (OLD if each.opened().format.id == KEY_VALUE else NEW)
    return [each.opened().format.id for each in found]


def test_each_side_is_found_from_the_start_to_the_end(spec: Spec) -> None:
    assert formats(spec, "live") == formats(spec, "old") == [KEY_VALUE] * 3
    with pytest.raises(StoreNotReadyError, match="is not assembled yet"):
        partitions(spec, "new")
    run(spec)
    assert formats(spec, "live") == formats(spec, "old") == [KEY_VALUE] * 3
    assert formats(spec, "new") == [TIMESTAMPED] * 3
    before = sides(spec)
    cutover(spec)
    for each in (each for found in before.values() for each in found):
        with pytest.raises(StateStoreMigratedError):
            read(each, KEY)
    assert formats(spec, "live") == formats(spec, "new") == [TIMESTAMPED] * 3
    assert formats(spec, "old") == [KEY_VALUE] * 3
    after = sides(spec)
    rollback(spec)
    for each in (each for found in after.values() for each in found):
        with pytest.raises((StateStoreMigratedError, StoreNotReadyError)):
            read(each, KEY)
    assert formats(spec, "live") == formats(spec, "old") == [KEY_VALUE] * 3
    assert formats(spec, "new") == [TIMESTAMPED] * 3
    run(spec)
    cutover(spec)
    finalize(spec)
    assert formats(spec, "live") == formats(spec, "new") == [TIMESTAMPED] * 3
    with pytest.raises(UnknownStateStoreError, match="the old store of 0_0/orders is not there any more"):
        partitions(spec, "old")


class KilledError(BaseException):
    """In the place of a kill."""


def kill_at(name: str, times: int) -> Callable[[Event], None]:
    left = [times]

    def listen(event: Event) -> None:
        if event.name == name:
            left[0] -= 1
            if not left[0]:
                raise KilledError

    return listen


@pytest.mark.parametrize(
    ("verb", "event", "times", "live"),
    [
        (cutover, "cutover.intended", 1, [KEY_VALUE] * 3),
        (cutover, "cutover.exchanged", 1, [TIMESTAMPED, KEY_VALUE, KEY_VALUE]),
        (cutover, "cutover.exchanged", 2, [TIMESTAMPED, TIMESTAMPED, KEY_VALUE]),
        (cutover, "cutover.shelved", 1, [TIMESTAMPED] * 3),
        (rollback, "rollback.exchanged", 1, [KEY_VALUE, TIMESTAMPED, TIMESTAMPED]),
        (rollback, "rollback.exchanged", 3, [KEY_VALUE] * 3),
    ],
)
def test_a_switch_that_was_killed_leaves_each_store_partition_readable(
    spec: Spec, verb: Callable[..., object], event: str, times: int, live: list[str]
) -> None:
    run(spec)
    if verb is rollback:
        cutover(spec)
    with pytest.raises(KilledError):
        verb(spec, on_event=kill_at(event, times))
    assert formats(spec, "live") == live
    assert formats(spec, "old") == [KEY_VALUE] * 3
    assert formats(spec, "new") == [TIMESTAMPED] * 3


_SWITCHES = """
import sys
from migrate import cutover, load_spec, rollback
for _ in range(3):
    cutover(load_spec(sys.argv[1]))
    print("cut over", flush=True)
    sys.stdin.readline()
    rollback(load_spec(sys.argv[1]))
    print("rolled back", flush=True)
    sys.stdin.readline()
"""


def test_handles_follow_the_switches_of_another_process(tmp_path: Path) -> None:
    """What was printed is true of every read that begins later; readers meanwhile get one of both records."""
    app = application(tmp_path)
    file = tmp_path / "spec.toml"
    file.write_text(
        f'name = "m"\nwork_dir = "{tmp_path}/work"\n[source]\nformat = "{KEY_VALUE}"\npath = "{app}"\nstore = "orders"\n'
        f'[target]\nformat = "{TIMESTAMPED}"\n'
    )
    from migrate import load_spec

    run(load_spec(file))
    stores = QueryableStores.of_migration(load_spec(file), refresh=0.01)
    command = [sys.executable, "-c", _SWITCHES, str(file)]
    with (
        Readers(stores, "orders", [OLD, NEW]) as readers,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        (handle,) = stores.store("orders", Bare())
        for line in other.stdout:
            with pytest.raises(StateStoreMigratedError):
                read(handle, KEY)
            (handle,) = stores.store("orders", Bare())
            assert read(handle, KEY) == (NEW if line == "cut over\n" else OLD)[KEY]
            other.stdin.write("\n")
            other.stdin.flush()
    assert other.returncode == 0
    readers.assert_right(least=50)
    assert readers.moved >= 6


def test_a_store_is_read_while_its_migration_converts_it(tmp_path: Path) -> None:
    app = application(tmp_path, records=(records := signed(b"A", 20_000)))
    spec = kafka_spec(tmp_path, app, run={"chunk_size": "32 KiB"})
    with Readers(QueryableStores.of_migration(spec), "orders", [records]) as readers:
        run(spec)
    readers.assert_right(least=50)
    assert readers.moved == 0


def test_a_published_directory_takes_over_and_ends_the_handles(tmp_path: Path) -> None:
    app = application(tmp_path)
    spec = kafka_spec(tmp_path, app, target={"path": tmp_path / "published"})
    (live,), (old,) = partitions(spec, "live"), partitions(spec, "old")
    run(spec)
    with pytest.raises(StateStoreMigratedError):
        read(live, KEY)
    assert read(old, KEY) == OLD[KEY]
    assert formats(spec, "live") == formats(spec, "new") == [TIMESTAMPED]
    assert formats(spec, "old") == [KEY_VALUE]


def test_positions_are_those_of_the_store_in_each_place(spec: Spec) -> None:
    (spec.source_path / "0_0/orders.position").write_text("0\n1\ninput 0 41\n")
    run(spec)
    cutover(spec)
    assert [partitions(spec, side)[0].opened().position for side in ("live", "old")] == [{("input", 0): 41}] * 2
    assert ORDERS.format == partitions(spec, "old")[0].opened().format.id
