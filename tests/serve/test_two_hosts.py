"""Hosts as processes of their own, which forward to each other; and what happens to one whose other is gone."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from migrate.queries.key_routing import HostInfo, KeyRouter, StatedHosts, stated_hosts
from tests.serve.migrating import SPEC
from tests.serve.processes import (
    COMMAND,
    OF_ORDERS,
    PARTITIONS,
    Served,
    free_addresses,
    make_host,
    partition_of,
    served,
)
from tests.serve.services import ORDERS, orders_of, serving
from tests.support import KEY_VALUE, TIMESTAMPED, make_store

COPY = "a copy of "
"""The values of standbys begin so."""


@dataclass(frozen=True)
class Hosts:
    """Three hosts: `third` has no active partition."""

    first: Served
    second: Served
    third: Served
    options: tuple[str, ...]
    folder: Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts")
    make_host(folder / "first", {0: "", 1: "", 3: COPY})
    make_host(folder / "second", {2: "", 3: "", 0: COPY})
    make_host(folder / "third", {1: COPY})
    return folder


@pytest.fixture
def hosts(folder: Path) -> Iterator[Hosts]:
    first, second, third = free_addresses(3)
    stated = {"--peer": (f"{first}=0,1", f"{second}=2-3"), "--standby": (f"{first}=3", f"{second}=0", f"{third}=1")}
    options = (
        *OF_ORDERS,
        *(part for option, texts in stated.items() for text in texts for part in (option, text)),
        "--partitions",
        str(PARTITIONS),
    )
    with ExitStack() as stack:
        addresses = {"first": first, "second": second, "third": third}
        running = {name: stack.enter_context(served(folder / name, at, *options)) for name, at in addresses.items()}
        yield Hosts(**running, options=options, folder=folder)


def _keys(*partitions: int) -> list[str]:
    return [key for key in ORDERS if partition_of(key) in partitions]


def _path(key: str, *, stale: bool = False) -> str:
    return f"/stores/orders/keys/{key}" + ("?stale=true" if stale else "")


def _is_unavailable(answer: httpx.Response) -> bool:
    return answer.status_code == 503 and answer.headers["retry-after"] == "1" and "no answer from" in answer.text


def test_every_key_is_right_from_each_host(hosts: Hosts) -> None:
    for asked in (hosts.first, hosts.second, hosts.third):
        for key, value in ORDERS.items():
            answer = asked.get(_path(key))
            assert (answer.status_code, answer.json()) == (200, {"key": key, "value": value})
            assert "x-stateferry-as-of" not in answer.headers
        assert asked.problem(_path("none"), 404).startswith("the store 'orders' has no record of this key")
    first, second, third = (each.url.removeprefix("http://") for each in (hosts.first, hosts.second, hosts.third))
    placed = [(first, [second]), (first, [third]), (second, []), (second, [first])]
    for key in ORDERS:
        active, standbys = placed[partition_of(key)]
        expected = {"store": "orders", "key": key, "partition": partition_of(key)}
        assert hosts.third.found(f"/metadata/orders/{key}") == expected | {"active": active, "standbys": standbys}
    key = _keys(3)[0]
    etag = hosts.second.get(_path(key)).headers["etag"]
    assert hosts.first.get(_path(key), if_none_match=etag).status_code == 304


def test_scans_are_merged_from_all_hosts(hosts: Hosts) -> None:
    for asked in (hosts.first, hosts.second, hosts.third):
        *records, end = map(json.loads, asked.get("/stores/orders/all").text.splitlines())
        assert end == {"end": True, "records": len(ORDERS)}
        assert sorted((each["key"], each["value"]) for each in records) == sorted(ORDERS.items())
        found: list[tuple[str, str]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = asked.found("/stores/orders/range?limit=70&to=order-250" + (f"&cursor={cursor}" if cursor else ""))
            found += [(each["key"], each["value"]) for each in page["records"]]
            cursor = page["cursor"]
        assert sorted(found) == sorted(each for each in ORDERS.items() if each[0] <= "order-250")


def test_numbers_of_json_pass_another_host_as_they_are_stored(tmp_path: Path) -> None:
    first, second = free_addresses(2)
    make_store(tmp_path / "first/0_0/rocksdb/orders", {b"a": b"14.7600"})
    make_store(tmp_path / "second/0_1/rocksdb/orders", {b"b": b'{"n":-0}'})
    options = (*OF_ORDERS[:-1], "json", "--partitions", "2", "--peer", f"{first}=0", "--peer", f"{second}=1")
    with served(tmp_path / "first", first, *options) as asked, served(tmp_path / "second", second, *options):
        page = asked.get("/stores/orders/range")
        following = asked.get(f"/stores/orders/range?cursor={page.json()['cursor']}")
        assert '"value":14.7600' in page.text
        assert '"value":{"n":-0}' in following.text


def test_of_a_killed_host_only_its_own_keys_are_unavailable(hosts: Hosts) -> None:
    hosts.second.process.kill()
    hosts.second.process.wait()
    for key in _keys(0, 1):
        assert hosts.first.found(_path(key))["value"] == ORDERS[key]
        assert hosts.third.found(_path(key))["value"] == ORDERS[key]
    for key in _keys(2, 3):
        assert _is_unavailable(hosts.first.get(_path(key)))
    lines = hosts.first.get("/stores/orders/all").text.splitlines()
    assert len(lines) == len(_keys(0, 1)) + 1
    assert json.loads(lines[-1])["error"]["status"] == 503
    assert hosts.first.problem("/stores/orders/range?limit=1000&cursor=" + _cursor(hosts.first), 503)


def _cursor(asked: Served) -> str:
    """Of the page that the next host has."""
    return str(asked.found("/stores/orders/range?limit=1000")["cursor"])


def test_a_standby_answers_in_place_of_a_killed_host_where_that_is_asked_for(hosts: Hosts) -> None:
    hosts.second.process.kill()
    hosts.second.process.wait()
    newest = max(file.stat().st_mtime_ns for file in (hosts.folder / "first/0_3/rocksdb/orders").iterdir())
    for asked in (hosts.first, hosts.third):
        for key in _keys(3):
            answer = asked.get(_path(key, stale=True))
            assert (answer.status_code, answer.json()["value"]) == (200, COPY + ORDERS[key])
            assert int(answer.headers["x-stateferry-as-of"]) == newest // 1_000_000
        for key in _keys(2):
            assert _is_unavailable(asked.get(_path(key, stale=True)))
        for key in _keys(0, 1):
            value = asked.found(_path(key, stale=True))["value"]
            assert value == (COPY if asked is hosts.third and partition_of(key) == 1 else "") + ORDERS[key]
    with served(hosts.folder / "second", hosts.second.url.removeprefix("http://"), *hosts.options):
        assert [hosts.first.found(_path(key))["value"] for key in _keys(2, 3)] == [ORDERS[key] for key in _keys(2, 3)]


def test_a_host_that_hangs_holds_up_its_own_keys_alone(hosts: Hosts) -> None:
    hosts.second.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(200) as pool, httpx.Client(timeout=30.0, limits=httpx.Limits()) as client:
        hanging = [pool.submit(client.get, hosts.third.url + _path(key)) for key in _keys(2, 3)]
        assert len(hanging) > 100, "more than the connections to one host"
        time.sleep(0.5)
        for number, stale in ((0, False), (1, False), (3, True)):
            key = _keys(number)[0]
            assert hosts.third.found(_path(key, stale=stale))["value"] == (COPY if stale else "") + ORDERS[key]
        assert not all(each.done() for each in hanging), "answered while others hang"
        assert [hosts.third.found(_path(key))["value"] for key in _keys(0, 1)] == [ORDERS[key] for key in _keys(0, 1)]
        assert all(_is_unavailable(each.result()) for each in hanging), "all at one time, by the client's limit"
    hosts.second.process.send_signal(signal.SIGCONT)
    assert hosts.third.found(_path(_keys(2)[0]))["value"] == ORDERS[_keys(2)[0]]


def test_the_token_is_shown_to_the_other_host_and_has_to_be_its_own(folder: Path) -> None:
    first, second = free_addresses(2)
    options = (*OF_ORDERS, "--peer", f"{first}=0,1", "--peer", f"{second}=2,3", "--partitions", str(PARTITIONS))
    key = _keys(3)[0]
    with served(folder / "first", first, *options, token="one") as asked:
        with served(folder / "second", second, *options, token="one") as other:
            assert asked.found(_path(key))["value"] == ORDERS[key]
            assert httpx.get(other.url + _path(key)).status_code == 401
            assert len(asked.get("/stores/orders/all").text.splitlines()) == len(ORDERS) + 1
        with served(folder / "second", second, *options, token="another"):
            answer = asked.get(_path(key))
            assert (answer.status_code, answer.json()["next"]) == (503, "give all hosts the same STATEFERRY_TOKEN")


def test_a_request_is_forwarded_once(folder: Path) -> None:
    """Each believes that the other has the partition."""
    first, second = free_addresses(2)
    count = ("--partitions", str(PARTITIONS))
    of_first = (*OF_ORDERS, "--peer", f"{first}=0,1,2", "--peer", f"{second}=3", *count)
    of_second = (*OF_ORDERS, "--peer", f"{first}=0,1,3", "--peer", f"{second}=2", *count)
    key = _keys(3)[0]
    with served(folder / "first", first, *of_first) as asked, served(folder / "second", second, *of_second):
        said = asked.problem(_path(key), 421)
        assert said == f"partition 3 is at {first}, not here at {second}, and {first} has forwarded the request already"
        assert "partition 2 of the store 'orders' is not on this host" in asked.problem("/stores/orders/all", 421)


@pytest.mark.parametrize(
    "of_second",
    [
        pytest.param(("{first}=0,1,2", "{second}=3"), id="a-partition-of-nobody"),
        pytest.param(("{first}=0", "{second}=1,2,3"), id="a-partition-twice"),
        pytest.param((), id="a-host-without-a-list"),
    ],
)
def test_a_list_of_hosts_that_know_different_hosts_is_not_whole(folder: Path, of_second: tuple[str, ...]) -> None:
    first, second = free_addresses(2)
    make_host(folder / "more", {1: "", 2: "", 3: ""})
    count = ("--partitions", str(PARTITIONS))
    peers = [part for text in of_second for part in ("--peer", text.format(first=first, second=second))]
    of_first = ("--peer", f"{first}=0,1", "--peer", f"{second}=2,3")
    with (
        served(folder / "first", first, *OF_ORDERS, *of_first, *count) as asked,
        served(folder / "more", second, *OF_ORDERS, *peers, *(count if peers else ())),
    ):
        *records, last = map(json.loads, asked.get("/stores/orders/all").text.splitlines())
        assert last["error"]["status"] == 421, last
        assert f"{second}: this host is asked for the partitions 2,3 of the store 'orders'" in last["error"]["detail"]
        assert sorted(each["key"] for each in records) == sorted(_keys(0, 1))
        assert "asked for the partitions 2,3" in asked.problem(
            f"/stores/orders/range?limit=1000&cursor={_cursor(asked)}", 421
        )


def test_pages_do_not_go_on_once_partitions_went_to_another_host(folder: Path) -> None:
    known: list[StatedHosts] = []

    def router(here: HostInfo) -> KeyRouter:
        known.append(stated_hosts([f"{here}=0,1", "127.0.0.1:1=2,3"]))
        return KeyRouter({"orders": PARTITIONS}, lambda: known[-1], here)

    with serving(orders_of(folder / "first"), router=router) as asked:
        cursor = asked.found("/stores/orders/range?limit=1")["cursor"]
        path = f"/stores/orders/range?limit=1&cursor={cursor}"
        assert asked.found(path)["records"]
        known.append(stated_hosts([f"{asked.url.removeprefix('http://')}=0", "127.0.0.1:1=1-3"]))
        assert "its partitions went to other hosts" in asked.problem(path, 409)


def test_a_copy_whose_number_is_not_known_is_no_part_of_a_list(folder: Path) -> None:
    copy = folder / "third/0_1/rocksdb/orders"
    hosts = stated_hosts(["127.0.0.1:1=0-3"])
    with serving(orders_of(copy), router=lambda here: KeyRouter({"orders": PARTITIONS}, lambda: hosts, here)) as asked:
        assert asked.found("/stores/orders/range?limit=1")["records"] == []


def test_a_list_of_a_host_that_knows_no_other_is_refused_unless_all_is_there(folder: Path) -> None:
    (address,) = free_addresses(1)
    with served(folder / "first", address, *OF_ORDERS, "--partitions", str(PARTITIONS)) as asked:
        for path in ("all", "range"):
            assert "partition 2 of the store 'orders' is not on this host" in asked.problem(
                f"/stores/orders/{path}", 421
            )


def test_a_host_that_takes_itself_for_another_forwards_once(folder: Path) -> None:
    (address,) = free_addresses(1)
    me = address.replace("127.0.0.1", "localhost")
    options = ("--peer", f"{address}=0-3", "--standby", f"{me}=0", "--application-server", me)
    with served(folder / "first", address, *OF_ORDERS, *options, "--partitions", "4") as asked:
        assert "forwarded the request to itself" in asked.problem(_path("order-007"), 508)


def test_a_scan_is_not_complete_without_a_host_for_each_partition(folder: Path) -> None:
    (address,) = free_addresses(1)
    options = ("--peer", f"{address}=0,1", "--partitions", "4")
    with served(folder / "first", address, *OF_ORDERS, *options) as asked:
        for path in ("all", "range"):
            said = asked.problem(f"/stores/orders/{path}", 503)
            assert said == "no host is known that has partition 2 of the store 'orders' active"
        assert asked.problem(_path(_keys(2)[0]), 503) == "which host has partition 2 active is not known"
        assert asked.found(_path(_keys(1)[0]))["value"] == ORDERS[_keys(1)[0]]


def test_a_host_whose_store_is_migrated_answers_in_its_new_format(tmp_path: Path) -> None:
    first, second = free_addresses(2)
    options = ("--peer", f"{first}=0,1", "--peer", f"{second}=2,3", "--partitions", str(PARTITIONS))
    make_host(tmp_path / "first", {0: "", 1: ""})
    make_host(tmp_path / "app", {2: "", 3: ""})
    spec = tmp_path / "orders.toml"
    spec.write_text(SPEC.format(source=KEY_VALUE, target=TIMESTAMPED))
    with (
        served(tmp_path / "first", first, *OF_ORDERS, *options) as asked,
        served(spec, second, *options) as other,
    ):
        for step, more in ((None, {}), ("run", {}), ("cutover", {"timestamp": -1}), ("rollback", {})):
            if step is not None:
                subprocess.run([str(COMMAND), step, str(spec)], check=True, capture_output=True)
            for host in (asked, other):
                for key, value in ORDERS.items():
                    own = more if partition_of(key) in (2, 3) else {}
                    assert host.found(_path(key)) == {"key": key, "value": value, **own}, step
                *records, end = map(json.loads, host.get("/stores/orders/all").text.splitlines())
                assert end == {"end": True, "records": len(ORDERS)}
                assert sum("timestamp" in each for each in records) == (len(_keys(2, 3)) if more else 0)
