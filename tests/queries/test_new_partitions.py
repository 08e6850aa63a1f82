"""Stores with another number of partitions are read on both sides, also those that keep a format of their own."""

from pathlib import Path

import pytest

from formats.partitioners import default_partition
from migrate import QueryableStores, SideBySideStores, Spec, run
from tests.shared.windowed import make_segments, window_key
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, make_spec

KEYS = [b"key-%03d" % number for number in range(100)]
WINDOW, HOUR = "kafka-streams.window", 3_600_000


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    for number in range(2):
        task, mine = tmp_path / "shop" / f"0_{number}", [key for key in KEYS if default_partition(key, 2) == number]
        make_families(task / "rocksdb" / "orders", {"default": {key: b"of " + key for key in mine}})
        windows = {window_key(key, at): b"%d" % at for key in mine for at in (0, 5 * HOUR)}
        make_segments(task / "by-hour", dict(sorted(windows.items())), HOUR, family="default")
    return make_spec(
        tmp_path,
        tmp_path / "shop",
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"stores": ["orders", {"name": "by-hour", "format": WINDOW}]},
        target={"partitions": 3, "stores": {"orders": "orders-3", "by-hour": "by-hour-3"}},
        conversion={"allow": ["changelog"]},
    )


def test_a_key_is_found_on_both_sides_wherever_it_lies(spec: Spec) -> None:
    run(spec)
    both = SideBySideStores(spec)
    for key in KEYS[::20]:
        (record,) = both.get("orders", key.decode()).records
        assert (record.verdict, record.store_partition) == ("equal", "orders")
        windows = both.get("by-hour", key.decode()).records
        assert [each.verdict for each in windows] == ["equal", "equal"]
    assert [each.verdict for each in both.first("orders-3", limit=200).records] == ["equal"] * len(KEYS)
    assert [each.verdict for each in both.get("orders", "no such key").records] == ["nowhere"]


def test_each_side_has_its_own_partitions(spec: Spec) -> None:
    live = QueryableStores.of_migration(spec)
    assert [each.id for each in live.partitions("orders")] == ["0_0/orders", "0_1/orders"]
    run(spec)
    old, new = (QueryableStores.of_migration(spec, side=side) for side in ("old", "new"))
    assert [each.id for each in old.partitions("by-hour")] == ["0_0/by-hour", "0_1/by-hour"]
    for stores in (live, new):
        found = stores.partitions("orders-3")
        assert [each.number for each in found] == [0, 1, 2]
        for each in found:
            entries = each.opened().segments[0].entries
            assert [key for key in KEYS if entries.get(key) is not None] == [
                key for key in KEYS if default_partition(key, 3) == each.number
            ]
    assert {each.opened().format.id for each in new.partitions("by-hour-3")} == {WINDOW}
