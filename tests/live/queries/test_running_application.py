"""A stopped application's directory answers as the running application did, which had a broker and two partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.serdes.numeric import NumberSerde
from migrate.queries.routing.murmur2 import default_partition
from tests.broker.broker import Broker
from tests.live.kafka_streams.program import require_live
from tests.live.queries.application import HOST, PARTITIONS, Line, ask_application

COUNT = 300
"""Questions of each store."""
_MANY = 2**31 - 1
"""Of how many partitions the program gives the default partitioner's choice, too."""


@pytest.fixture(scope="module")
def asked(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[Line, Line]]]:
    require_live()
    folder = tmp_path_factory.mktemp("running")
    return folder / "app", ask_application(broker.bootstrap, folder, COUNT)


def test_a_key_is_where_kafka_streams_says(asked: tuple[Path, list[tuple[Line, Line]]]) -> None:
    found = [(each, answer["found"]) for each, answer in asked[1] if each["call"] == "key_metadata"]
    for question, (partition, host, standbys, of_many) in found:
        key = _serialized(question["args"][0])
        assert (default_partition(key, PARTITIONS), default_partition(key, _MANY)) == (partition, of_many), question
        assert (host, standbys) == (HOST, 0)
    assert len(found) == 3 * COUNT


def _serialized(key: str | int | dict[str, str]) -> bytes:
    if isinstance(key, str):
        return key.encode()
    return NumberSerde("int64").encode(key) if isinstance(key, int) else bytes.fromhex(key["bytes"])
