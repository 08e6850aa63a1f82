"""Rows of stores that Kafka Streams wrote, against what it said they hold; and of every format's golden bytes."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from formats import get_format
from formats.kafka_streams.families import PLAIN_FAMILY, TIMESTAMPED_FAMILY
from formats.serdes.text import StringSerde
from migrate.engine.rows.row_reader import RowReader
from migrate.stores.rocksdb.database import open_read_only
from tests.engine.rows.reference import batch_of, expected, plain
from tests.formats.test_golden_bytes import KIND_OF, TASKS, VECTORS
from tests.support import TIMESTAMPED, copy_fixture, fixture_records


@pytest.mark.parametrize("store", KIND_OF)
@pytest.mark.parametrize("task", TASKS)
def test_a_store_of_kafka_streams(task: str, store: str, tmp_path: Path) -> None:
    family = TIMESTAMPED_FAMILY if KIND_OF[store] == TIMESTAMPED else PLAIN_FAMILY
    reader = RowReader(get_format(KIND_OF[store]), key=StringSerde())
    with open_read_only(copy_fixture(tmp_path) / task / "rocksdb" / store) as database:
        batches = [reader.rows(batch, task, int(task[-1])) for batch in database.batches(family)]
    rows = plain(pa.Table.from_batches(batches, reader.schema).combine_chunks().to_batches()[0])
    assert {(row["task"], row["partition"]) for row in rows} == {(task, int(task[-1]))}
    found = [(row["key"].encode(), row["value"], row.get("timestamp")) for row in rows]
    wanted = fixture_records(task, store)
    assert found == sorted((key, value, time and time * 1000) for key, value, time in wanted)


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.json")), ids=lambda file: file.stem)
def test_golden_bytes_as_rows(file: Path) -> None:
    known = get_format(file.stem)
    vectors = json.loads(file.read_text(encoding="utf-8"))["vectors"]
    stored = [tuple(bytes.fromhex(each["stored"][part]) for part in ("key", "value")) for each in vectors]
    batch = batch_of([(key, value) for key, value in stored if not key.startswith(known.metadata_keys)])
    reader = RowReader(known)
    names = [name for name in reader.schema.names if name not in ("task", "partition", "family")]
    rows = plain(RowReader(known, columns=names).rows(batch, "0_0", 0))
    assert rows == [{name: row[name] for name in names} for row in expected(known, batch)]
