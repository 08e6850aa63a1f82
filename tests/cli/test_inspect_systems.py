"""Systems that cannot be migrated yet are named all the same, by names alone; what names do not tell is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyarrow import table

from migrate import RefusedError, inspect
from migrate.survey.report import PlaceReport
from tests.support import make_families, make_store, numbered


def place_of(path: Path) -> PlaceReport:
    """The one system that is named."""
    (place,) = inspect(path).places
    return place


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize("part", [".", "billing", "billing/0-0/rocksdb/totals"])
def test_streamiz_writes_its_tasks_with_a_hyphen(tmp_path: Path, part: str) -> None:
    make_store(tmp_path / "billing/0-0/rocksdb/totals", numbered(3))
    place = place_of(tmp_path / part)
    assert (place.system, place.is_certain, place.can_be_migrated) == ("streamiz", True, False)
    assert place.sentence.startswith("Streamiz: ")
    assert place.sentence.endswith("this version cannot migrate it")
    assert len(inspect(tmp_path / part).databases) == 1


def test_streamiz_is_known_by_its_process_file_too(tmp_path: Path) -> None:
    touch(tmp_path / "streamiz-process-metadata")
    assert place_of(tmp_path).sentence == "Streamiz: a state directory, this version cannot migrate it"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (".", "Faust: the tables clicks, users of v1"),
        ("v1/tables", "Faust: the tables clicks, users of v1"),
        ("v1/tables/clicks-1.db", "Faust: partition 1 of the table clicks"),
    ],
)
def test_faust_tables_are_named(tmp_path: Path, part: str, sentence: str) -> None:
    for name in ("clicks-0", "clicks-1", "users-0"):
        make_store(tmp_path / f"v1/tables/{name}.db", numbered(3))
    place = place_of(tmp_path / part)
    assert (place.system, place.sentence) == ("faust", f"{sentence}, this version cannot migrate it")


def test_quix_is_told_by_its_column_family(tmp_path: Path) -> None:
    for number in range(2):
        make_families(tmp_path / f"group/counts/stream/{number}", {"default": numbered(3), "__metadata__": {}})
    place = place_of(tmp_path)
    assert (place.path, place.is_certain, place.can_be_migrated) == (tmp_path / "group/counts/stream", True, False)
    assert place.sentence == ("Quix Streams: the store counts of the stream stream, this version cannot migrate it")
    assert place_of(tmp_path / "group/counts/stream/1").sentence == place.sentence


def test_numbers_alone_prove_nothing(tmp_path: Path) -> None:
    make_store(tmp_path / "0", numbered(3))
    for path in (tmp_path, tmp_path / "0"):
        place = place_of(path)
        assert (place.is_certain, place.can_be_migrated) == (False, True)
        assert place.sentence.startswith("ambiguous: RocksDB directories named by numbers, as Quix Streams names ")


@pytest.mark.parametrize(
    ("files", "provider"),
    [
        (("1.delta", "2.delta", "2.snapshot"), "kept by its HDFS state store provider"),
        (("1.changelog", "2.zip"), "kept by its RocksDB state store provider"),
        (("1_0f8b-11.zip",), "kept by its RocksDB state store provider"),
        (("1.delta", "2.zip"), "kept by both of its state store providers, which is ambiguous"),
    ],
)
@pytest.mark.parametrize("store", ["", "left-keyToNumValues"])
def test_spark_checkpoints_are_named_with_their_provider(
    tmp_path: Path, files: tuple[str, ...], provider: str, store: str
) -> None:
    for name in ("offsets", "commits"):
        touch(tmp_path / name / "0")
    touch(*(tmp_path / "state/0/1" / store / name for name in files), tmp_path / "state/0/_metadata/metadata")
    parts = {
        ".": "a query's checkpoint",
        "state": "state of all operators",
        "state/0": "state of one operator",
        "state/0/1": "state of one store partition",
    }
    for part, what in parts.items():
        place = place_of(tmp_path / part)
        assert place.system == "spark"
        assert place.sentence == f"Spark Structured Streaming: {what}, {provider}; this version cannot migrate it"


def test_a_delta_table_is_named(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "rows"), table({"number": [1]}))
    place = place_of(tmp_path)
    assert (place.path, place.sentence) == (tmp_path / "rows", "a Delta table, this version cannot migrate it")


@pytest.mark.parametrize("name", ["0_0/notes.txt", "0-0/notes.txt", "tables/clicks.db/file", "state/0/0/1.txt"])
def test_a_name_that_is_only_alike_is_nothing(tmp_path: Path, name: str) -> None:
    touch(tmp_path / name)
    with pytest.raises(RefusedError, match="no RocksDB directory at or below"):
        inspect(tmp_path)


def test_several_systems_in_one_place_are_all_named(tmp_path: Path) -> None:
    make_store(tmp_path / "a/0-0/rocksdb/totals", numbered(3))
    make_store(tmp_path / "b/v1/tables/users-0.db", numbered(3))
    make_store(tmp_path / "c/0_0/rocksdb/orders", numbered(3))
    (tmp_path / "d").symlink_to(tmp_path / "c")
    report = inspect(tmp_path)
    assert {place.system for place in report.places} == {"streamiz", "faust", "kafka-streams"}
    assert len(report.databases) == 3
    assert report.warnings == (f"{tmp_path / 'd'} is a symbolic link to {tmp_path / 'c'}: not looked into",)
