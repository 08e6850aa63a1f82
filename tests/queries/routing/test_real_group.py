"""The hosts that real instances of Kafka Streams state, as their group has them."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from migrate.errors import BrokerError, RefusedError
from migrate.kafka.connection import read_connection
from migrate.queries.group_placement import GroupPlacement, partition_counts
from migrate.queries.key_routing import HostInfo, KeyRouter
from tests.broker.broker import Broker
from tests.live.changelog.app import App, Program
from tests.live.changelog.model import PARTITIONS, make_input_topic, random_inputs, send

_PATIENCE_SECONDS = 60.0
FIRST, SECOND = HostInfo("first.example", 7654), HostInfo("second.example", 7654)


def test_the_hosts_are_those_of_the_group(broker: Broker, tmp_path: Path) -> None:
    program = Program(broker.bootstrap, "app-hosts", tmp_path / "first", standbys=1, server=str(FIRST))
    make_input_topic(broker.bootstrap, program.input)
    send(broker.bootstrap, program.input, random_inputs(200, 50, seed=1, now_ms=time.time_ns() // 1_000_000))
    connection = read_connection(broker.bootstrap, None)
    placement = GroupPlacement(connection, program.application_id, {"orders": 0})
    other = replace(program, state_dir=tmp_path / "second", server=str(SECOND))
    with App(program) as first, App(other) as second:
        first.wait_active(1)
        second.wait_active(1)
        active = _await_standbys(placement)
        assert set(active) == {FIRST, SECOND}
        for partition, host in enumerate(active):
            assert placement().standbys("orders", partition) == tuple({FIRST, SECOND} - {host})
        second.stop()
        first.wait_active(PARTITIONS)
        placement.refresh()
        assert [placement().active("orders", each) for each in range(PARTITIONS)] == [FIRST] * PARTITIONS
        first.stop()
    assert partition_counts(connection, {"orders": ("none", program.changelog)}) == {"orders": PARTITIONS}
    with pytest.raises(RefusedError, match="app-hosts-customers-changelog of the store 'customers' is not at"):
        partition_counts(connection, {"customers": ("app-hosts-customers-changelog",)})
    router = KeyRouter({"orders": PARTITIONS}, placement)
    placement.refresh()
    assert router.hosts("orders") == (FIRST,), "the last placement stays once the application has stopped"
    placement.connection = replace(connection, bootstrap="127.0.0.1:1")
    with pytest.raises(BrokerError):
        placement.refresh()
    assert router.hosts("orders") == (FIRST,), "and while the broker cannot be reached"


def _await_standbys(placement: GroupPlacement) -> list[HostInfo | None]:
    """The active hosts, once both partitions have their standby."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not all(placement.refresh().standbys("orders", each) for each in range(PARTITIONS)):
        assert time.monotonic() < deadline, placement()
        time.sleep(0.2)
    return [placement().active("orders", each) for each in range(PARTITIONS)]
