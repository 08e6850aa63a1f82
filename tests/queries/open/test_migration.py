"""The stores of a migration by their sides, through our own verbs."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import Spec, cutover, finalize, load_spec, rollback, run
from migrate.batch.ledger.standing import read_standing
from migrate.batch.ledger.table import Ledger
from migrate.errors import StateStoreMigratedError, StoreNotReadyError, UnknownStateStoreError
from migrate.model.events import Event
from migrate.model.journal import Exchange
from migrate.model.ledger_row import Step
from migrate.queries.open.partition import Partition
from migrate.queries.queryable_stores import QueryableStores
from tests.queries.support import ORDERS, Bare, Readers, application, read, scanned, signed
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP, kafka_spec, make_store

OLD = signed(b"A")
NEW = {key: UNKNOWN_TIMESTAMP + value for key, value in OLD.items()}
KEY = b"key-000007"


def orders(base: Path, app: Path, **sections: object) -> Spec:
    return kafka_spec(base, app, **{"source": {"stores": ["orders"]}, "target": {"path": None}, **sections})


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    app = application(tmp_path)
    for task in ("0_1", "0_2"):
        (app / task / "rocksdb").mkdir(parents=True)
        make_store(app / task / "rocksdb" / "orders", OLD)
    return orders(tmp_path, app)


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
        (cutover, "cutover.old-set-aside", 1, [TIMESTAMPED] * 3),
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


def test_between_two_renames_a_store_is_not_ready(spec: Spec, tmp_path: Path) -> None:
    run(spec)
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.positioned", 1))
    (spec.source_path / "0_1/rocksdb/orders").rename(tmp_path / "aside")
    with pytest.raises(StoreNotReadyError, match="0_1/orders is being moved"):
        partitions(spec, "live")
    (tmp_path / "aside").rename(spec.source_path / "0_1/rocksdb/orders")
    assert formats(spec, "live") == [KEY_VALUE] * 3


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
        f'name = "m"\nwork_dir = "{tmp_path}/work"\n[target]\nformat = "{TIMESTAMPED}"\n'
        f'[source]\nformat = "{KEY_VALUE}"\npath = "{app}"\nstore = "orders"\n'
    )
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
    readers.assert_right()
    assert readers.moved >= 6


def test_a_store_is_read_while_its_migration_converts_it(tmp_path: Path) -> None:
    app = application(tmp_path, records=(records := signed(b"A", 20_000)))
    spec = orders(tmp_path, app, run={"chunk_size": "32 KiB"})
    with Readers(QueryableStores.of_migration(spec), "orders", [records]) as readers:
        run(spec)
    readers.assert_right()
    assert readers.moved == 0


def test_a_published_directory_takes_over_and_ends_the_handles(tmp_path: Path) -> None:
    app = application(tmp_path)
    spec = orders(tmp_path, app, target={"path": str(tmp_path / "published")})
    (live,), (old,) = partitions(spec, "live"), partitions(spec, "old")
    run(spec)
    with pytest.raises(StateStoreMigratedError):
        read(live, KEY)
    assert read(old, KEY) == OLD[KEY]
    assert formats(spec, "live") == formats(spec, "new") == [TIMESTAMPED]
    assert formats(spec, "old") == [KEY_VALUE]


def renamed(entry: Exchange) -> Exchange:
    """The exchange of a migration whose new stores have names of their own."""
    new = entry.partition.model_copy(update={"store": "orders-2", "path": entry.partition.path.with_name("orders-2")})
    return entry.model_copy(update={"new_partition": new})


def begin_renamed(spec: Spec) -> None:
    """Begin a cut-over to stores with names of their own, which only a migration with a broker can have."""
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.intended", 1))
    standing = read_standing(spec.home)
    journal = standing.journal.model_copy(update={"exchanges": tuple(map(renamed, standing.journal.exchanges))})
    ledger = Ledger(spec.home, standing.rows[-1].migration_id, "0123456789ab", command="switch")
    ledger.commit(ledger.row(Step.CUTTING_OVER, detail=journal.model_dump(mode="json")))


def cut_over_renamed(spec: Spec) -> None:
    begin_renamed(spec)
    cutover(spec)


def test_a_store_that_is_moved_in_beside_the_old_one_takes_over(spec: Spec) -> None:
    run(spec)
    begin_renamed(spec)
    before = sides(spec)
    assert formats(spec, "live") == formats(spec, "old") == [KEY_VALUE] * 3
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.exchanged", 1))
    for side, replaced in (("live", [True, False, False]), ("old", [False] * 3)):
        assert [is_replaced(each) for each in before[side]] == replaced
    assert formats(spec, "live") == [TIMESTAMPED, KEY_VALUE, KEY_VALUE]
    cutover(spec)
    after = partitions(spec, "live")
    assert formats(spec, "live") == formats(spec, "new") == [TIMESTAMPED] * 3
    assert formats(spec, "old") == [KEY_VALUE] * 3
    rollback(spec)
    assert [is_replaced(each) for each in after] == [True] * 3
    assert formats(spec, "live") == [KEY_VALUE] * 3
    assert formats(spec, "new") == [TIMESTAMPED] * 3


def is_replaced(partition: Partition) -> bool:
    try:
        read(partition, KEY)
    except StateStoreMigratedError:
        return True
    return False


def test_positions_are_those_of_the_store_in_each_place(spec: Spec) -> None:
    (spec.source_path / "0_0/orders.position").write_text("0\n1\ninput 0 41\n")
    run(spec)
    cutover(spec)
    assert [partitions(spec, side)[0].opened().position for side in ("live", "old")] == [{("input", 0): 41}] * 2
    assert ORDERS.format == partitions(spec, "old")[0].opened().format.id
