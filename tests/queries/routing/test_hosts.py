"""The file of hosts."""

from pathlib import Path

import pytest

from formats import EntryError
from formats.partitioners import default_partition
from formats.serdes.numeric import NumberSerde
from migrate.errors import RefusedError, SpecError, UnknownStateStoreError
from migrate.queries.key_routing import HostInfo, KeyQueryMetadata, KeyRouter, read_hosts, stated_hosts
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from tests.support import KEY_VALUE, make_store

_FILE = """
[[host]]
address = "10.0.0.1:7654"
active = [0, 2]
standby = [1]

[[host]]
address = "b.example:7655"
active = [1]
standby = [0]

[host.stores.customers]
active = [3]
"""
FIRST, SECOND = HostInfo("10.0.0.1", 7654), HostInfo("b.example", 7655)


def _written(folder: Path, text: str) -> Path:
    file = folder / "hosts.toml"
    file.write_text(text)
    return file


def test_a_file_says_which_host_has_which_partition(tmp_path: Path) -> None:
    hosts = read_hosts(_written(tmp_path, f"\ufeff{_FILE}"))  # editors of Windows begin a file so
    assert [hosts.active("orders", each) for each in range(4)] == [FIRST, SECOND, FIRST, None]
    assert [hosts.standbys("orders", each) for each in range(3)] == [(SECOND,), (FIRST,), ()]
    assert hosts.hosts("orders") == (FIRST, SECOND)


def test_a_store_can_be_placed_by_itself(tmp_path: Path) -> None:
    hosts = read_hosts(_written(tmp_path, _FILE))
    assert [hosts.active("customers", each) for each in (1, 2, 3)] == [None, FIRST, SECOND]


def test_a_key_is_with_the_host_of_its_partition(tmp_path: Path) -> None:
    hosts = read_hosts(_written(tmp_path, _FILE))
    router = KeyRouter({"orders": 2}, lambda: hosts, me=FIRST)
    for number in range(50):
        key = str(number).encode()
        partition = default_partition(key, 2)
        active, standby = (FIRST, SECOND) if partition == 0 else (SECOND, FIRST)
        assert router.key_metadata("orders", key) == KeyQueryMetadata(partition, active, (standby,))


def test_a_partitioner_of_ones_own_decides(tmp_path: Path) -> None:
    hosts = read_hosts(_written(tmp_path, _FILE))
    router = KeyRouter({"orders": 3}, lambda: hosts, partitioner=lambda key, count: key[0] % count)
    assert router.key_metadata("orders", b"\x04").partition == 1


def test_the_number_of_partitions_has_to_be_stated(tmp_path: Path) -> None:
    hosts = read_hosts(_written(tmp_path, _FILE))
    with pytest.raises(RefusedError, match="'orders' has is not known") as caught:
        KeyRouter({}, lambda: hosts).key_metadata("orders", b"key")
    assert "--partitions" in caught.value.hint


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[[host]]\nadress = 1", "host.0"),
        ('[[host]]\naddress = "nowhere"', "'nowhere' is not HOST:PORT"),
        ('[[host]]\naddress = "a:70000"', "'a:70000' is not HOST:PORT"),
        ('[[host]]\naddress = "a:1"\nactive = [-1]', "host.0.active"),
        ('[[host]]\naddress = "a:1"\nactive = [1]\n[[host]]\naddress = "b:1"\nactive = [1]', "partition 1 active"),
        ('[[host]]\naddress = "a:1"\n[[host]]\naddress = "a:1"', "a:1 is listed twice"),
        ("host = 1]", "cannot be read as TOML"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem.replace("[", r"\[")):
        read_hosts(_written(tmp_path, text))


def test_hosts_can_be_stated_one_by_one() -> None:
    hosts = stated_hosts(["10.0.0.1:7654=0,2-4", "b.example:7655=1"], ["10.0.0.1:7654=1", "b.example:7655=0,2"])
    assert [hosts.active("any", each) for each in range(6)] == [FIRST, SECOND, FIRST, FIRST, FIRST, None]
    assert [hosts.standbys("any", each) for each in range(4)] == [(SECOND,), (FIRST,), (SECOND,), ()]
    assert hosts.listed == (FIRST, SECOND)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("10.0.0.1:7654", "'10.0.0.1:7654' is not HOST:PORT=PARTITIONS"),
        ("10.0.0.1:7654=0,", "is not HOST:PORT=PARTITIONS"),
        ("10.0.0.1:7654=-1", "is not HOST:PORT=PARTITIONS"),
        ("10.0.0.1:7654=٣", "is not HOST:PORT=PARTITIONS"),
        ("10.0.0.1=0", "'10.0.0.1' is not HOST:PORT"),
        ("b.example:7655=0-3", "two hosts have partition 2 active"),
    ],
)
def test_a_host_that_is_stated_wrongly_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        stated_hosts(["10.0.0.1:7655=2", text])


def test_a_host_that_is_stated_twice_has_both() -> None:
    assert stated_hosts(["a:1=0", "a:1=1"]).active("any", 0) == stated_hosts(["a:1=0,1"]).active("any", 1)


def test_an_object_is_where_its_serialized_key_is(tmp_path: Path) -> None:
    make_store(tmp_path / "app" / "0_0" / "rocksdb" / "orders", {b"": b""})
    stores = QueryableStores.of_directory(
        tmp_path / "app", {"orders": StoreDefinition(KEY_VALUE, NumberSerde("int64"))}
    )
    router = KeyRouter({"orders": 50}, lambda: stated_hosts(["a:1=0-49"]))
    for number in range(20):
        found = stores.key_metadata("orders", number, router=router)
        assert found == router.key_metadata("orders", number.to_bytes(8, "big"))
    with pytest.raises(UnknownStateStoreError):
        stores.key_metadata("customers", 1, router=router)
    with pytest.raises(EntryError):
        stores.key_metadata("orders", "1", router=router)


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert HostInfo.parse("[::1]:7654") == HostInfo("::1", 7654)
    assert str(HostInfo("::1", 7654)) == "[::1]:7654"
