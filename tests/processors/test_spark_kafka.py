"""A query over a Kafka topic: the markers of a sweep go into that topic."""

import json
from pathlib import Path

import pytest

from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import read_connection
from migrate.kafka.writer import produce
from tests.broker.broker import Broker
from tests.processors.spark_queries import PAIRS, open_session, run, state, variables
from tests.shared.commands import InProcess, Outcome

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The newest one that Maven's repositories have; PySpark 4.3 takes it."""
TOPIC = "spark-orders"


def marker(key: tuple[str]) -> tuple[str, str]:
    """A compacted topic takes no record without a key."""
    return key[0], json.dumps({"k": key[0]})


def test_markers_go_into_the_topic_that_the_query_reads(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = read_connection(broker.bootstrap, None)
    with Cluster(connection) as cluster:
        cluster.create_topic(TOPIC, partitions=2, replication=1, settings={"cleanup.policy": "compact"})
    kafka = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}

    def order(number: int, keys: int) -> None:
        rows = [{"k": f"k{key}", "n": 10 * number + key} for key in range(keys)]
        produce(connection, TOPIC, [(f"{row['k']}-{number}".encode(), json.dumps(row).encode()) for row in rows])

    def sweep(to: str, *more: str) -> Outcome:
        of = ("--variable", "count", "--marker", f"{__name__}:marker", "--to", to, *more)
        return InProcess().run(["sweep", str(tmp_path / "checkpoint"), *of])

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--packages {CONNECTOR} pyspark-shell")
    with open_session() as spark:
        order(0, 6)
        run(spark, tmp_path, "OldForm", kafka=kafka)
        order(1, 2)
        run(spark, tmp_path, "DualForm", kafka=kafka)
        assert f"which reads {TOPIC}" in sweep("other").message
        assert "no broker is named for the topic" in sweep(TOPIC).message
        assert "is not host:port" in sweep(TOPIC, "--bootstrap", "http://kafka").message
        unread = sweep(TOPIC, "--bootstrap", broker.bootstrap, "--config", "nowhere")
        assert "nowhere cannot be read: No such file or directory next: check [changelog] config or --config" in (
            unread.message
        )
        first = sweep(TOPIC, "--bootstrap", broker.bootstrap)
        assert (first.code, "4 markers" in first.out) == (5, True), first.err
        run(spark, tmp_path, "DualForm", kafka=kafka)
        assert sweep(TOPIC, "--bootstrap", broker.bootstrap).code == 0
        run(spark, tmp_path, "FinalForm", kafka=kafka)
        order(2, 1)
        run(spark, tmp_path, "FinalForm", kafka=kafka)
        assert variables(spark, tmp_path) == {*PAIRS.values()}
        run(spark, tmp_path, "NewForm", checkpoint="fresh", kafka=kafka)
        for name in PAIRS.values():
            assert state(spark, tmp_path, name) == state(spark, tmp_path, name, checkpoint="fresh")
