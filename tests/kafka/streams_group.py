"""Joins a group of the `streams` protocol, of which no client for Python knows anything: one heartbeat, by hand.

Source: the broker's clients/src/main/resources/common/message/StreamsGroupHeartbeatRequest.json, version 0.
"""

import socket
import struct

_STREAMS_GROUP_HEARTBEAT = 88
_NOTHING = b"\0"  # no tagged fields, and every array or text that is null


def join(bootstrap: str, group: str, topic: str) -> None:
    """Be its member for a minute."""
    subtopology = _text("0") + _array(_text(topic)) + _array() * 5 + _NOTHING
    topology = b"\1" + struct.pack(">i", 0) + _array(subtopology) + _NOTHING
    body = _text(group) + _text("AAAAAAAAAAAAAAAAAAAAAA")  # the member's id
    body += struct.pack(">ii", 0, 0) + _NOTHING * 2 + struct.pack(">i", 60_000)  # epochs, instance, rack, timeout
    body += topology + _array() * 3 + _text("process") + b"\xff" + _NOTHING * 3 + b"\0" + _NOTHING
    header = struct.pack(">hhih", _STREAMS_GROUP_HEARTBEAT, 0, 1, -1) + _NOTHING
    host, _, port = bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = connection.recv(4096)
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 1 + 4)  # behind size, number, tags and throttling
    assert error == 0, f"the broker refuses the heartbeat: error {error}"


def _text(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _array(*items: bytes) -> bytes:
    return bytes([len(items) + 1]) + b"".join(items)
