"""A stopped application's directory answers as the running application did, which had a broker and two partitions."""

from pathlib import Path
from typing import Any

import pytest

from formats.partitioners import default_partition
from formats.serde import BYTES, Serde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde
from migrate.queries.key_routing import KeyRouter, stated_hosts
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.requests import StateQueryRequest
from tests.broker.broker import Broker
from tests.live.kafka_streams.kinds import SESSION, VERSIONED
from tests.live.kafka_streams.program import require_live
from tests.live.queries.application import HOST, KEYS, PARTITIONS, TYPES, Line, ask_application, question_of
from tests.live.queries.ours import as_kafka_streams_has_it, ask_view, open_ours, query_of, written_result

COUNT = 80
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
    assert len(found) == KEYS


def test_views_of_two_partitions_are_its_own(asked: tuple[Path, list[tuple[Line, Line]]]) -> None:
    ours = open_ours(asked[0], TYPES)
    for line, expected in asked[1]:
        if line["call"] == "key_metadata" or line["call"].endswith("Query"):
            continue
        where = line["store"], line["type"], question_of(line)
        found = ask_view(ours, *where, line["partition"])
        if line["partition"] is None and isinstance(expected.get("found"), list) and not _is_point(line):
            parts = [ask_view(ours, *where, number)["found"] for number in range(PARTITIONS)]
            assert found["found"] == parts[0] + parts[1], line
            # `findSessions` of Kafka Streams, and `fetch` of one key, give those of the first partition that has any.
            is_first = line["store"] == SESSION and (len(line["args"]) == 1 or "find_sessions" in line["call"])
            expectable = parts if is_first else (parts[0] + parts[1], parts[1] + parts[0])
            assert expected["found"] in expectable, line
        elif line["call"] == "fetch_session" and line["partition"] is None:
            assert expected["found"] in (found["found"], None), line  # it asks one partition only
        else:
            assert found.get("found") == expected.get("found"), line
            assert found.get("error", "").replace("Error", "Exception") == expected.get("error", ""), line


def test_queries_of_two_partitions_are_its_own(asked: tuple[Path, list[tuple[Line, Line]]]) -> None:
    ours = open_ours(asked[0], TYPES)
    for line, expected in asked[1]:
        if not line["call"].endswith("Query"):
            continue
        question = question_of(line)
        if "error" not in expected:
            result = ours.query(StateQueryRequest.in_store(line["store"]).with_query(query_of(question)))
            found = {
                str(number): as_kafka_streams_has_it(written_result(each), question)
                for number, each in result.partition_results.items()
            }
            if line["store"] == VERSIONED:  # it keeps no position on disk
                found, expected["partitions"] = (_without_positions(each) for each in (found, expected["partitions"]))
            assert found == expected["partitions"], line


def _is_point(line: Line) -> bool:
    is_window = line["call"] == "fetch" and "window" in line["type"] and len(line["args"]) == 2
    return is_window or line["call"] in ("get", "fetch_session")


def _without_positions(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {number: {**each, "position": None} for number, each in results.items()}


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
    assert count == KEYS


def _serialized(key: str | int | dict[str, str]) -> bytes:
    if isinstance(key, str):
        return key.encode()
    return NumberSerde("int64").encode(key) if isinstance(key, int) else bytes.fromhex(key["bytes"])
