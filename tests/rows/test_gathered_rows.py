"""Which stores compiled code reads for their rows: they are the same rows, and the same errors."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats.avro.schema import AvroSchema
from formats.kafka_streams.versioned import LATEST, key_in
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.text import StringSerde
from migrate.engine.rows import gathered
from migrate.errors import CorruptionError, MigrationError, StoreNotReadyError
from migrate.model.key_range import KeyRange
from migrate.rows import row_source
from migrate.rows.row_source import RowSelection, RowSource, rows_of_spec
from migrate.stores.rocksdb.c_api import open_native_pooled
from tests.queries.views.made import NAME, key_value, segmented
from tests.rows.test_row_source import SMALL, _damaged, _gone, _replaced, of, read
from tests.shared.windowed import MINUTE, window_time, windows
from tests.support import TIMESTAMPED, kafka_spec, make_families, numbered

ROOT = Path(__file__).parents[2]
TIMED = {key: bytes(8) + value for key, value in numbered(2000).items()}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The families that compiled code has read; any range is worth its start."""
    made: list[str] = []
    gather = gathered.gather

    def counted(database: Any, family: str, *arguments: Any) -> Any:  # noqa: ANN401
        made.append(family)
        return gather(database, family, *arguments)

    monkeypatch.setattr(gathered, "gather", counted)
    monkeypatch.setattr(row_source, "LITTLE_BYTES", 0)
    yield made


def _windows(folder: Path) -> Path:
    segments: dict[int, dict[bytes, bytes]] = {}
    for key, value in windows(2000, until=20 * MINUTE).items():
        segments.setdefault(window_time(key) // MINUTE * MINUTE, {})[key] = value
    return segmented(folder, segments)


def _upgraded(folder: Path, families: dict[str, dict[bytes, bytes]]) -> Path:
    (folder / "app/0_0/rocksdb").mkdir(parents=True)
    make_families(folder / "app/0_0/rocksdb" / NAME, families)
    return folder / "app"


SOURCES: dict[str, tuple[Callable[[Path], RowSource], bool]] = {
    "key-value": (lambda folder: of(key_value(folder, numbered(3000), numbered(10))), True),
    "text": (lambda folder: of(key_value(folder, numbered(3000)), key=StringSerde()), True),
    "timestamped": (
        lambda folder: of(_upgraded(folder, {"default": {}, "keyValueWithTimestamp": TIMED}), TIMESTAMPED),
        True,
    ),
    "before an upgrade, elsewhere": (
        lambda folder: of(
            _upgraded(folder, {"default": {b"a": b"1"}, "keyValueWithTimestamp": TIMED}),
            TIMESTAMPED,
            RowSelection(from_key=b"b"),
        ),
        True,
    ),
    "a range of keys": (
        lambda folder: of(
            key_value(folder, numbered(3000)), selection=RowSelection(from_key=b"key-00000100", to_key=b"key-00002000")
        ),
        True,
    ),
    "columns": (lambda folder: of(key_value(folder, numbered(9)), selection=RowSelection(("key", "task"))), True),
    "nothing": (lambda folder: of(key_value(folder, {})), True),
    "windows": (lambda folder: of(_windows(folder), "kafka-streams.window"), True),
    "windows of some keys": (
        lambda folder: of(_windows(folder), "kafka-streams.window", RowSelection(from_key=b"a", to_key=b"ab\0")),
        False,
    ),
    "versions": (
        lambda folder: of(key_value(folder, {key_in(LATEST, b"k"): bytes(8) + b"v"}), "kafka-streams.versioned"),
        False,
    ),
    "before an upgrade": (
        lambda folder: of(_upgraded(folder, {"default": numbered(3000), "keyValueWithTimestamp": TIMED}), TIMESTAMPED),
        False,
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_those_that_python_reads(
    name: str, tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, is_taken = SOURCES[name]
    source = make(tmp_path)
    found = read(source)
    assert bool(calls) == is_taken
    calls.clear()
    monkeypatch.setattr(row_source, "LITTLE_BYTES", 1 << 40)
    assert found == read(source)
    assert not calls


@pytest.mark.parametrize("name", SOURCES)
def test_threads_read_what_compiled_code_reads(name: str, tmp_path: Path, calls: list[str]) -> None:
    make, is_taken = SOURCES[name]
    source = make(tmp_path)
    assert source.reading.is_threaded(source.tasks(SMALL)) == is_taken


def test_processes_read_what_passes_through_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = key_value(tmp_path, numbered(3000))
    source, avro = of(app), of(app, value=AvroSerde(((None, AvroSchema('"long"')),), "none"))
    tasks = source.tasks(SMALL)
    assert source.reading.is_threaded(tasks)  # hardly any
    assert not replace(source.reading, engine="portable").is_threaded(tasks)
    assert not avro.reading.is_threaded(tasks)
    assert avro.choosing(RowSelection(("key",))).reading.is_threaded(tasks)
    monkeypatch.setattr(row_source, "LITTLE_BYTES", 0)
    assert not source.reading.is_threaded([replace(each, is_in_use=True) for each in tasks])


def test_a_batch_keeps_no_more_memory_than_its_records_take(tmp_path: Path) -> None:
    records = numbered(3000)
    directory = key_value(tmp_path, records) / "0_0/rocksdb" / NAME
    with open_native_pooled(directory) as database:
        (found,) = gathered.gather(database, "default", KeyRange(), 16 << 10, 8 << 20)
    assert found.values.data.base is None  # no view of a larger one
    assert found.values.data.nbytes == sum(map(len, records.values())) + 8
    assert dict(zip(found.keys, found.values, strict=True)) == records


def test_what_a_running_application_has_open_is_read_with_every_file_open(tmp_path: Path, calls: list[str]) -> None:
    source = of(key_value(tmp_path, numbered(300)))
    tasks = [replace(task, is_in_use=True) for task in source.tasks()]
    assert sum(batch.num_rows for task in tasks for batch in source.read(task)) == 300
    assert not calls


def test_a_migration_may_do_without_compiled_code(tmp_path: Path, calls: list[str]) -> None:
    app = key_value(tmp_path, numbered(300))
    for engine, is_taken in (("portable", False), ("auto", True)):
        spec = kafka_spec(tmp_path, app, source={"store": NAME}, run={"engine": engine})
        assert len(read(rows_of_spec(spec, side="old").choosing(RowSelection(("key",))))) == 300
        assert bool(calls) == is_taken


@pytest.mark.parametrize(
    "happens, error, said",
    [
        (_damaged, CorruptionError, "cannot be read"),
        (_gone, StoreNotReadyError, "was removed or replaced"),
        (_replaced, StoreNotReadyError, "was removed or replaced"),
    ],
)
def test_what_compiled_code_cannot_read_whole_is_an_error(
    tmp_path: Path, calls: list[str], happens: Callable[[Path], None], error: type[MigrationError], said: str
) -> None:
    app = key_value(tmp_path, numbered(3000), numbered(3000))
    source = of(app)
    tasks = source.tasks(SMALL)
    happens(app / "0_1/rocksdb" / NAME)
    with pytest.raises(error, match=said):
        [batch for task in tasks for batch in source.read(task)]
    assert calls


_READ = """
import sys
from pathlib import Path
from migrate.rows import row_source
from tests.rows.test_row_source import of
row_source.LITTLE_BYTES = 0
source = of(Path(sys.argv[1]))
print(sum(batch.num_rows for task in source.tasks() for batch in source.read(task)))
"""


def test_rows_are_read_where_nothing_can_be_compiled(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(300))
    (tmp_path / "broken/numba").mkdir(parents=True)
    (tmp_path / "broken/numba/__init__.py").write_text("raise ImportError('Numba needs an older NumPy')")
    variables = {"STATEFERRY_CACHE": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path / 'broken'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", _READ, app], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.stdout == "300\n", done.stderr
