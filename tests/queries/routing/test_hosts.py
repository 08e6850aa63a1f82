"""The file of hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.errors import RefusedError, SpecError
from migrate.queries.routing.hosts import HostInfo, read_hosts
from migrate.queries.routing.metadata import KeyQueryMetadata, KeyRouter
from migrate.queries.routing.murmur2 import default_partition

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
    hosts = read_hosts(_written(tmp_path, _FILE))
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


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert HostInfo.parse("[::1]:7654") == HostInfo("::1", 7654)
    assert str(HostInfo("::1", 7654)) == "[::1]:7654"
