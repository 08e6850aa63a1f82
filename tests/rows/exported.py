"""Exports of stores whose records are known, and what Delta's own readers find in them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import DeltaTable

from migrate import ExportReport, Spec, export
from tests.support import copy_fixture, fixture_records, kafka_spec

TASKS = ("0_0", "0_1", "0_2")
SMALL_RANGES = {"chunk_size": "16 KiB"}
TEXT = {"key": {"from": {"serde": "string"}, "to": {"serde": "string"}}}
RANGES = 30
"""Of the store `orders`, with small ranges."""


def orders_spec(base: Path, **sections: Any) -> Spec:  # noqa: ANN401
    """The store `orders` of a real application, in small ranges."""
    sections = {"source": {"stores": ["orders"]}, "target": {"path": None}, "run": SMALL_RANGES, **sections}
    return kafka_spec(base, copy_fixture(base), **sections)


def expected(store: str = "orders") -> dict[str, dict[bytes, bytes]]:
    """The records of each task, as Kafka Streams itself has read them."""
    return {task: {key: value for key, value, _ in fixture_records(task, store)} for task in TASKS}


def rows(table: Path, version: int | None = None) -> list[dict[str, Any]]:
    """The rows of a version, from the files that delta-rs finds in it. It counts them by their statistics, too."""
    added = DeltaTable(str(table), version=version).get_add_actions(flatten=True)
    columns = {name: added.column(name).to_pylist() for name in ("path", "partition.task", "num_records")}
    found = []
    for path, task, count in zip(*columns.values(), strict=True):
        content = pq.ParquetFile(table / unquote(path)).read(use_threads=False).to_pylist()
        assert len(content) == count
        found += [{"task": task, **row} for row in content]
    return found


def by_task(found: list[dict[str, Any]]) -> dict[str, dict[bytes, bytes]]:
    """Keys and values of each task, each key once."""
    tasks: dict[str, dict[bytes, bytes]] = {}
    for row in found:
        records = tasks.setdefault(row["task"], {})
        assert row["key"] not in records
        records[row["key"]] = row["value"]
    return tasks


def entries(table: Path) -> list[Path]:
    """The log's entries, in order."""
    return sorted((table / "_delta_log").glob("*.json"))


def last_actions(table: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in entries(table)[-1].read_text().splitlines()]


def unfinished(spec: Spec, table: Path, **how: Any) -> ExportReport:  # noqa: ANN401
    """An export that was killed before its last commit: what it would have reported."""
    report = export(spec, table, **how)
    entries(table)[-1].unlink()
    return report


def files(table: Path) -> Mapping[str, int]:
    """Each data file with the time of its last change."""
    return {str(each.relative_to(table)): each.stat().st_mtime_ns for each in table.rglob("*.parquet")}
