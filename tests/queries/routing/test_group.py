"""What members of a group tell each other, of every version that Kafka Streams has written."""

import struct

import pytest

from migrate.errors import BrokerError
from migrate.queries.group_placement import GroupHosts, MemberTasks, member_tasks
from migrate.queries.key_routing import HostInfo

_VERSIONS = range(1, 12)
HOST = HostInfo("app.example", 8080)


def _number(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _heading(version: int) -> bytes:
    return _number(version) + (_number(11) if version >= 3 else b"")


def _task(version: int, subtopology: int, partition: int) -> bytes:
    return _number(subtopology, partition) + (_number(0) if version >= 10 else b"")


def _subscription(version: int, endpoint: str) -> bytes:
    data = _heading(version) + bytes(16)
    if version <= 6:
        data += _number(1, 0, 1) + _number(0)
    if version >= 2:
        data += _sized(endpoint.encode())
    if version >= 7:
        data += _number(0)
    if version >= 8:
        data += b"\x01"
    return struct.pack(">h", 1) + _number(1) + _text("orders") + _sized(data) + _number(0)


def _assignment(version: int) -> bytes:
    data = _heading(version) + _number(2) + _task(version, 0, 1) + _task(version, 1, 0)
    data += _number(1) + _task(version, 0, 2) + _number(1) + _text("orders") + _number(2)
    return struct.pack(">h", 1) + _number(1) + _text("orders") + _number(1, 1) + _sized(data + _number(0))


@pytest.mark.parametrize("version", _VERSIONS)
def test_each_version_is_read(version: int) -> None:
    found = member_tasks([(_subscription(version, str(HOST)), _assignment(version))], "orders-app")
    expected = MemberTasks(HOST, frozenset({(0, 1), (1, 0)}), frozenset({(0, 2)}))
    assert found == ((expected,) if version >= 2 else ())


def test_a_store_is_where_its_subtopology_is() -> None:
    other = HostInfo("b", 1)
    hosts = GroupHosts(
        (
            MemberTasks(HOST, frozenset({(0, 0), (1, 1)}), frozenset()),
            MemberTasks(other, frozenset({(0, 1)}), frozenset({(0, 0)})),
        ),
        {"orders": 0},
    )
    assert [hosts.active("orders", each) for each in range(3)] == [HOST, other, None]
    assert hosts.standbys("orders", 0) == (other,)
    assert hosts.hosts("orders") == (HOST, other)
    assert hosts.active("unknown", 0) is None


def test_a_member_without_an_assignment_has_no_tasks() -> None:
    (found,) = member_tasks([(_subscription(11, str(HOST)), b"")], "orders-app")
    assert found == MemberTasks(HOST, frozenset(), frozenset())


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_bytes_that_end_too_early_are_refused(cut: int) -> None:
    with pytest.raises(BrokerError, match="'orders-app' do not describe themselves"):
        member_tasks([(_subscription(11, str(HOST))[:-cut], _assignment(11)[:cut])], "orders-app")


def test_a_version_to_come_is_refused() -> None:
    with pytest.raises(BrokerError, match="version 12 is not known"):
        member_tasks([(_subscription(12, str(HOST)), _assignment(11))], "orders-app")
