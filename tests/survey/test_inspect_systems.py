"""Systems that cannot be migrated yet are recognised by names, and ambiguous names are reported as such."""

from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyarrow import table

from migrate import RefusedError, inspect
from migrate.survey.inspect_report import PlaceReport
from tests.support import make_families, make_store, numbered


def place_of(path: Path) -> PlaceReport:
    """The only system in the report."""
    (place,) = inspect(path).places
    return place


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (".", "Streamiz: the state directory of the application billing, 2 stores in 2 tasks"),
        ("0-0", "Streamiz: the directory of task 0-0, of the application billing in "),
        ("0-0/hourly/hourly.0", "Streamiz: hourly/hourly.0 in the directory of task 0-0, of the application billing "),
    ],
)
def test_streamiz_writes_its_tasks_with_a_hyphen(tmp_path: Path, part: str, sentence: str) -> None:
    app = tmp_path / "billing"
    make_store(app / "0-0/rocksdb/totals", numbered(3))
    make_store(app / "0-1/rocksdb/totals", numbered(4))
    make_store(app / "0-0/hourly/hourly.0", numbered(5))
    place = place_of(app / part)
    assert (place.system, place.is_certain, place.can_be_migrated) == ("streamiz", True, True)
    assert place.sentence.startswith(sentence)


def test_a_store_of_streamiz_may_be_any_of_its_formats_of_that_kind(tmp_path: Path) -> None:
    app = tmp_path / "billing"
    for task in ("0-0", "0-1"):
        make_store(app / task / "rocksdb/totals", numbered(4))
        make_store(app / task / "hourly/hourly.3600000", numbered(5))
    hourly, totals = inspect(tmp_path, digest=True).stores
    assert (hourly.kind, hourly.segments, hourly.records) == ("window", 2, 10)
    assert hourly.formats == ("streamiz.timestamped-window", "streamiz.window")
    assert (totals.kind, totals.store_partitions, totals.records) == ("key-value", ("0-0/totals", "0-1/totals"), 8)
    assert totals.formats == ("streamiz.key-value", "streamiz.timestamped-key-value")
    assert {store.system for store in (hourly, totals)} == {"streamiz"}


def test_applications_of_both_systems_in_one_directory_are_distinguished(tmp_path: Path) -> None:
    for name, tasks in (("java", ("0_0", "global")), ("dotnet", ("0-0", "global"))):
        for task in tasks:
            make_store(tmp_path / name / task / "rocksdb/totals", numbered(3))
    touch(tmp_path / "streamiz-process-metadata")
    report = inspect(tmp_path)
    assert [(place.system, place.path.name) for place in report.places if place.path != tmp_path] == [
        ("streamiz", "dotnet"),
        ("kafka-streams", "java"),
    ]
    assert [(store.system, store.store_partitions) for store in report.stores] == [
        ("streamiz", ("0-0/totals", "global/totals")),
        ("kafka-streams", ("0_0/totals", "global/totals")),
    ]


@pytest.mark.parametrize(("process", "system"), [("streamiz-process-metadata", "streamiz"), ("x", "kafka-streams")])
def test_global_stores_alone_are_recognised_by_the_files_beside_them(tmp_path: Path, process: str, system: str) -> None:
    touch(tmp_path / process)
    make_store(tmp_path / "app/global/rocksdb/rates", numbered(3))
    assert place_of(tmp_path / "app").system == system


def test_streamiz_is_known_by_its_process_file_too(tmp_path: Path) -> None:
    touch(tmp_path / "streamiz-process-metadata")
    assert place_of(tmp_path).sentence == "Streamiz: a state directory without an application"


def test_what_streamiz_takes_for_a_segment_is_warned_of(tmp_path: Path) -> None:
    store = tmp_path / "billing/0-0/hourly"
    make_store(store / "hourly.0", numbered(5))
    (store / "hourly.bak").mkdir()
    touch(store / "notes.txt")
    (warning,) = inspect(tmp_path / "billing").warnings
    assert warning.startswith(f"{store / 'hourly.bak'} lies among segments: Streamiz may not find one of them")


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("v1", "Faust: the state directory of the application v1, 2 stores in 2 tasks"),
        ("v1/tables", "Faust: the directory of its tables, of the application v1 in "),
        ("v1/tables/clicks-1.db", "Faust: partition 1 of the table clicks, of the application v1 in "),
    ],
)
def test_faust_tables_are_named(tmp_path: Path, part: str, sentence: str) -> None:
    for name in ("clicks-0", "clicks-1", "users-0"):
        make_store(tmp_path / f"v1/tables/{name}.db", numbered(3))
    place = place_of(tmp_path / part)
    assert (place.system, place.can_be_migrated) == ("faust", True)
    assert place.sentence.startswith(sentence)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("group", "Quix Streams: the state directory of the application group, 1 store in 2 tasks"),
        ("group/counts", "Quix Streams: the store counts, of the application group in "),
        ("group/counts/stream/1", "Quix Streams: partition 1 of the store counts of the stream stream, of the "),
    ],
)
def test_quix_is_recognised_by_its_column_family(tmp_path: Path, part: str, sentence: str) -> None:
    for number in range(2):
        make_families(tmp_path / f"group/counts/stream/{number}", {"default": numbered(3), "__metadata__": {}})
    place = place_of(tmp_path / part)
    assert (place.system, place.is_certain, place.can_be_migrated) == ("quix", True, True)
    assert place.sentence.startswith(sentence)


def test_numbers_alone_prove_nothing(tmp_path: Path) -> None:
    make_store(tmp_path / "group/counts/stream/0", numbered(3))
    assert inspect(tmp_path).places == ()
    assert place_of(tmp_path / "group/counts/stream/0").system == "rocksdb"


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
    assert report.warnings == (f"{tmp_path / 'd'} is a symbolic link to {tmp_path / 'c'}: it was not followed",)


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    make_store(tmp_path / "c/0_0/rocksdb/orders", numbered(3))
    (tmp_path / "d").symlink_to(tmp_path / "c")
    assert [each.path for each in inspect(tmp_path / "d").databases] == ["0_0/rocksdb/orders"]


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RefusedError, match=f"{tmp_path / name} is not a directory") as refused:
        inspect(tmp_path / name)
    assert refused.value.hint
