"""Two services beside two real instances of an application, which find each other by the application's group."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.broker.broker import Broker
from tests.kafka.streams_group import join
from tests.live.changelog.app import App, Program
from tests.live.changelog.model import PARTITIONS, make_input_topic, random_inputs, rows_after, send
from tests.serve.processes import COMMAND, OF_ORDERS, Served, free_addresses, make_host, served
from tests.support import TIMESTAMPED

_PATIENCE_SECONDS = 60.0
_DEFINED = ("--store", "orders", "--format", TIMESTAMPED, "--key-serde", "string")


@contextmanager
def _running(program: Program, other: Program) -> Iterator[tuple[App, App]]:
    with App(program) as first, App(other) as second:
        first.wait_active(1)
        second.wait_active(1)
        yield first, second


def test_services_find_each_other_and_follow_the_application(broker: Broker, tmp_path: Path) -> None:
    addresses = free_addresses(2)
    program = Program(broker.bootstrap, "app-served", tmp_path / "first", standbys=1, server=addresses[0])
    other = replace(program, state_dir=tmp_path / "second", server=addresses[1])
    inputs = random_inputs(200, 100, seed=2, now_ms=time.time_ns() // 1_000_000)
    make_input_topic(broker.bootstrap, program.input)  # filled by librdkafka
    send(broker.bootstrap, program.input, inputs)
    with App(program) as app:
        app.wait_active(PARTITIONS).wait_caught_up()
        app.stop()
    shutil.copytree(program.folder, other.folder)  # what is on disk by now, of both, is all there is
    (other.folder / "kafka-streams-process-metadata").unlink()
    keys = [key for key, _ in rows_after(program.kind, inputs)]
    options = (*_DEFINED, "--stale", "--bootstrap", broker.bootstrap, "--partitioner", "crc32")
    with (
        _running(program, other) as apps,
        served(program.folder, addresses[0], *options) as first,
        served(other.folder, addresses[1], *options) as second,
    ):
        for each in (first, second):  # both, for their lists of hosts have to be the same
            _await_hosts(each, set(addresses), keys)
        _check_all(first, keys, is_running=True)
        _check_all(second, keys, is_running=True)
        apps[1].stop()
        apps[0].wait_active(PARTITIONS)
        _await_hosts(second, {addresses[0]}, keys)
        _await_hosts(first, {addresses[0]}, keys)
        _check_all(second, keys, is_running=True)
        apps[0].stop()
        time.sleep(4)  # both have asked again, and found nobody
        _await_hosts(second, {addresses[0]}, keys)
        _check_all(second, keys, is_running=False)
        second.process.terminate()
        assert second.process.wait(60) in (0, -signal.SIGTERM), "the thread that asks the broker holds up nothing"


def _await_hosts(asked: Served, expected: set[str], keys: list[str]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (found := {asked.found(f"/metadata/orders/{key}")["active"] for key in keys[:20]}) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def _check_all(asked: Served, keys: list[str], *, is_running: bool) -> None:
    for key in keys:
        answer = asked.get(f"/stores/orders/keys/{key}")
        assert answer.status_code == 200, answer.text
        assert ("x-stateferry-as-of" in answer.headers) == is_running
    *records, end = map(json.loads, asked.get("/stores/orders/all").text.splitlines())
    assert sorted(each["key"] for each in records) == sorted(keys)
    assert end == {"end": True, "records": len(keys)}


def test_a_group_whose_members_cannot_be_asked_is_refused(broker: Broker, tmp_path: Path) -> None:
    make_input_topic(broker.bootstrap, "app-unasked-input")
    make_input_topic(broker.bootstrap, "app-unasked-orders-changelog")
    join(broker.bootstrap, "app-unasked", "app-unasked-input")
    place = make_host(tmp_path / "app-unasked", {0: ""})
    command = [str(COMMAND), "serve", str(place), *OF_ORDERS, "--bootstrap", broker.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert 'of the protocol "streams", whose members do not say which partitions they have' in ended.stderr
    assert "--hosts" in ended.stderr


def test_the_broker_tells_how_many_partitions_stated_hosts_have(broker: Broker, tmp_path: Path) -> None:
    (address,) = free_addresses(1)
    make_input_topic(broker.bootstrap, "app-counted-orders-changelog")
    place = make_host(tmp_path / "app-counted", {0: "", 1: ""})
    options = (*OF_ORDERS, "--peer", f"{address}=0,1", "--bootstrap", broker.bootstrap)
    with served(place, address, *options) as asked:
        found = {asked.found(f"/metadata/orders/order-{number:03d}")["partition"] for number in range(50)}
        assert found == set(range(PARTITIONS))
