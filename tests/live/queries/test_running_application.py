"""A stopped application's directory answers as the running application did, which had a broker and two partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.serde import BYTES, Serde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde
from migrate.queries.definition import StoreDefinition
from migrate.queries.routing.hosts import stated_hosts
from migrate.queries.routing.metadata import KeyRouter
from migrate.queries.routing.partitioners import default_partition
from migrate.queries.stores import QueryableStores
from tests.broker.broker import Broker
from tests.live.kafka_streams.program import require_live
from tests.live.queries.application import HOST, PARTITIONS, TYPES, Line, ask_application

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


def test_a_key_as_an_object_is_where_kafka_streams_says(asked: tuple[Path, list[tuple[Line, Line]]]) -> None:
    router = KeyRouter(dict.fromkeys(TYPES, PARTITIONS), lambda: stated_hosts([f"{HOST}=0-{PARTITIONS - 1}"]))
    serdes: dict[type, Serde] = {str: StringSerde(), int: NumberSerde("int64"), bytes: BYTES}
    stores = {
        kind: QueryableStores.of_directory(
            asked[0], {store: StoreDefinition(f"kafka-streams.{store}", serde) for store in TYPES}
        )
        for kind, serde in serdes.items()
    }
    count = 0
    for question, answer in asked[1]:
        if question["call"] == "key_metadata":
            key = question["args"][0]
            key = bytes.fromhex(key["bytes"]) if isinstance(key, dict) else key
            found = stores[type(key)].key_metadata(question["store"], key, router=router)
            assert (found.partition, str(found.active), len(found.standbys)) == tuple(answer["found"][:3]), question
            count += 1
    assert count == 3 * COUNT


def _serialized(key: str | int | dict[str, str]) -> bytes:
    if isinstance(key, str):
        return key.encode()
    return NumberSerde("int64").encode(key) if isinstance(key, int) else bytes.fromhex(key["bytes"])
