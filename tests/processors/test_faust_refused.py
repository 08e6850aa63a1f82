"""Which tables of Faust cannot be read dually, by name, before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from typing import Any

import faust
import pytest

from migrate import MissingPackageError, RefusedError, SpecError
from migrate.processors.faust import DualTable
from tests.processors.faust_host import both
from tests.support import raises


def as_sum(old: int) -> dict[str, int]:
    return {"sum": old}


@pytest.mark.parametrize(
    "new, old, error, words",
    [
        ({"name": "counts"}, {"name": "counts"}, ValueError, "already exists"),
        ({"key_type": bytes}, {}, RefusedError, "differ in key_type or partitions"),
        ({"partitions": 3}, {}, RefusedError, "differ in key_type or partitions"),
        ({"use_partitioner": True}, {}, RefusedError, "'new' has use_partitioner"),
        ({"options": {"ttl": 60}}, {}, RefusedError, "'new' has a ttl"),
        ({}, {"options": {"driver": "python-rocksdb"}}, RefusedError, "'counts' is in the files of python-rocksdb"),
        ({"store": "aerospike://"}, {}, RefusedError, "'new' is in a store of aerospike"),
    ],
)
def test_tables_that_cannot_be_read_dually_are_refused(
    new: dict[str, Any], old: dict[str, Any], error: type[Exception], words: str
) -> None:
    app: Any = faust.App("sums", store="rocksdb://")

    def declare() -> None:
        DualTable(
            app.Table(**({"name": "new", "key_type": str} | new)),
            app.Table(**{"name": "counts", "key_type": str} | old),
            as_sum,
        )

    raises(error, words, declare)


@pytest.mark.parametrize(
    "declare, words",
    [
        (lambda app: app.Table("new").tumbling(60), "a WindowWrapper is no table"),
        (lambda app: app.Table("new").tumbling(60).table, "is windowed"),
        (lambda app: app.SetTable("new"), "is a SetTable"),
        (lambda app: app.GlobalTable("new"), "is a GlobalTable"),
        (lambda app: {}, "a dict is no table"),
    ],
)
def test_other_kinds_of_tables_are_refused_by_name(declare: Callable[[faust.App], Any], words: str) -> None:
    app = faust.App("sums", store="rocksdb://")
    error = raises(RefusedError, words, lambda: DualTable(declare(app), app.Table("counts"), as_sum))
    assert error.hint


def test_one_table_cannot_be_both() -> None:
    table = faust.App("sums").Table("counts")
    raises(SpecError, "is the old one and the new one", lambda: DualTable(table, table, as_sum))


@pytest.mark.parametrize("setting", [{"producer_threaded": True}, {"processing_guarantee": "exactly_once"}])
def test_where_confirmations_are_not_seen_it_is_refused(setting: dict[str, Any]) -> None:
    app = faust.App("sums", store="rocksdb://", **setting)
    raises(RefusedError, "nothing tells when a new value is confirmed", lambda: DualTable(*both(app), as_sum))


def test_another_package_of_its_name_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("migrate.processors.cell.version", missing)
    app = faust.App("sums")
    error = raises(
        MissingPackageError, "the package faust-streaming is not installed", lambda: DualTable(*both(app), as_sum)
    )
    assert error.hint == "pip install 'stateferry[faust]'"


def test_another_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrate.processors.cell.version", lambda package: "0.16.0")
    app = faust.App("sums")
    error = raises(
        RefusedError, "faust-streaming 0.16.0 is not a tested version: 0.15", lambda: DualTable(*both(app), as_sum)
    )
    assert "stateferry[faust]" in error.hint
