"""What a table and its changelog can have that does not go together, at a real broker."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from migrate import RefusedError, Spec, cutover, run
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.spec.spec import parse_spec
from tests.broker.broker import Broker
from tests.broker.topics import make_topic
from tests.live.faust.tables import make_table
from tests.support import read_families

Content = Mapping[int, Mapping[str, int]]


def logged_table(broker: Broker, datadir: Path, app: str, table: str, content: Content, *, ahead: int = 0) -> Path:
    """A table and its changelog; the table states offsets that are so far ahead of it."""
    topic = f"{app}-{table}-changelog"
    make_topic(broker.bootstrap, topic, len(content), **{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    for partition, rows in content.items():
        for key, value in rows.items():
            producer.produce(topic, partition=partition, key=json.dumps(key), value=json.dumps(value))
    assert producer.flush(30) == 0
    offsets = {partition: len(rows) - 1 + ahead for partition, rows in content.items()}
    return make_table(datadir, table, content, offsets=offsets, key_type=str)


def spec_of(broker: Broker, home: Path, app: str, tables: Mapping[str, str]) -> Spec:
    content: dict[str, Any] = {
        "name": "counts",
        "work_dir": "work",
        "source": {"format": "faust.table", "path": str(home), "stores": list(tables)},
        "target": {"format": "faust.table", "stores": list(tables.values())},
        "conversion": {"function": "tests.shared.conversions:in_object"},
        "changelog": {"bootstrap": broker.bootstrap, "application_id": app, "application": "stopped"},
    }
    return parse_spec(content, base_dir=home.parents[1])


def test_an_offset_ahead_of_its_changelog_is_refused(broker: Broker, tmp_path: Path) -> None:
    """Faust itself would not start: the topic was made anew, or the offset is another application's."""
    rows = {0: {"a": 1, "b": 2}, 1: {"c": 3}}
    home = logged_table(broker, tmp_path / "data", "faust-ahead", "counts", rows, ahead=5)
    with pytest.raises(RefusedError) as refused:
        run(spec_of(broker, home, "faust-ahead", {"counts": "counts-v2"}))
    assert re.search(r"0/counts is at 7 of faust-ahead-counts-changelog.*ends at 2", refused.value.message)
    assert refused.value.hint


def test_tables_of_different_partitions_keep_theirs(broker: Broker, tmp_path: Path) -> None:
    content = {"counts": {0: {"a": 1}, 1: {"b": 2}}, "totals": {0: {"a": 1}, 1: {"b": 2}, 2: {"c": 3}}}
    for table, rows in content.items():
        home = logged_table(broker, tmp_path / "data", "faust-two", table, rows)
    spec = spec_of(broker, home, "faust-two", {"counts": "counts-v2", "totals": "totals-v2"})
    assert run(spec).verification.ok
    cutover(spec)
    with Cluster(Connection(broker.bootstrap)) as cluster:
        there = cluster.partitions()
    assert {table: there[f"faust-two-{table}-v2-changelog"] for table in content} == {"counts": 2, "totals": 3}
    assert read_families(home / "tables/totals-v2-2.db")["default"][b'"c"'] == b'{"sum":3}'


@pytest.mark.parametrize("rows", [{}, {"c": 3}], ids=["empty", "with-rows"])
def test_a_table_without_an_offset_beside_a_changelog_is_refused(
    broker: Broker, tmp_path: Path, rows: Mapping[str, int]
) -> None:
    """It was lost, or never restored: what the changelog has would be missing from the new table."""
    app = f"faust-unstated-{len(rows)}"
    home = logged_table(broker, tmp_path / "data", app, "counts", {0: {"a": 1}, 1: {"b": 2, "c": 3}})
    shutil.rmtree(home / "tables/counts-1.db")
    make_table(home.parent, "counts", {1: rows}, key_type=str)
    with pytest.raises(RefusedError) as refused:
        run(spec_of(broker, home, app, {"counts": "counts-v2"}))
    assert "1/counts has no changelog offset" in refused.value.message
    assert "let it restore" in refused.value.hint
