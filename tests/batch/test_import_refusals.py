"""`import`, and what it is not: each mistake has a sentence, and nothing is written before it is told."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from migrate import ChunkFailedError, CorruptionError, MigrationError, RefusedError, SourceChangedError, SpecError, plan
from migrate.batch.chunk.executor import in_process
from migrate.batch.context import Context
from migrate.batch.importing import pin_table
from migrate.batch.run import run_with
from migrate.spec.spec import Spec
from tests.shared.imports import TEXT, TIME, import_here, import_spec, text_rows, write_rows
from tests.support import flip_byte, kafka_spec, raises

ALLOWED = {"allow": ["changelog"]}


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return import_spec(tmp_path, conversion=TEXT | ALLOWED)


def refused(kind: type[MigrationError], message: str, spec: Spec, table: Path, version: int | None = None) -> str:
    """The hint; nothing was made."""
    error = raises(kind, message, pin_table, Context(spec), table, version)
    assert not (spec.home / "imported.json").exists()
    assert not spec.source_path.exists()
    return error.hint


@pytest.mark.parametrize(
    "sections, message",
    [
        ({"target": {"partitions": None}}, "partitions is the number of its tasks"),
        ({"target": {"partitions": 0}}, "target.partitions: should be greater than or equal to 1"),
        ({"target": {"path": None}}, r"\[target\] path says where"),
        ({"target": {"store": None}}, r"\[target\] store names it"),
        ({"target": {"subtopology": None}}, r"\[target\] subtopology is the first number"),
        ({"target": {"partitions": None, "subtopology": None}}, "'source' is missing"),
        ({"target": {"format": "kafka-streams.versioned"}}, "one of kafka-streams.versioned cannot be yet"),
        ({"target": {"format": "kafka-streams.window"}}, r"\[target\] retention_ms \(and segment_ms"),
        ({"target": {"retention_ms": 1000}}, "are of windowed and session stores"),
        ({"target": {"fromat": "x"}}, r"unknown key 'target.fromat': did you mean 'format'"),
        ({"source": {"rows": True}}, r"leave \[source\] out"),
        ({"conversion": {"function": "a:b"}}, "change the rows instead"),
        ({"conversion": {"key": {"from": {"serde": "string"}, "to": {"serde": "string"}}}}, "rows have types of their"),
        ({"conversion": {"key": {"to": {"serde": "text"}}}}, "unknown serde 'text': did you mean 'string'"),
    ],
)
def test_a_spec_that_is_not_one_of_an_import(tmp_path: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        import_spec(tmp_path, **sections)


def test_a_new_store_needs_its_tasks(tmp_path: Path) -> None:
    old = kafka_spec(tmp_path, tmp_path / "app", target={"path": "new/app"})
    error = raises(SpecError, "has an old store", pin_table, Context(old), tmp_path / "table")
    assert "leave [source] out" in error.hint
    with pytest.raises(SpecError, match="subtopology goes with a spec without"):
        kafka_spec(tmp_path, tmp_path / "app", target={"path": "new/app", "subtopology": 0})


def test_the_changelog_is_lost_by_name_alone(tmp_path: Path) -> None:
    spec = import_spec(tmp_path, conversion={"allow": []})
    hint = refused(RefusedError, "exactly-once wipes the store", spec, write_rows(tmp_path / "t", text_rows(1)))
    assert '[conversion] allow = ["changelog"]' in hint


def test_a_run_before_the_import(spec: Spec, tmp_path: Path) -> None:
    error = raises(RefusedError, "nothing says of which", run_with, in_process, Context(spec))
    assert error.hint == "stateferry import SPEC --from TABLE names it, and does all that a run does"
    assert not spec.home.exists()
    assert plan(spec).verdict.exit_code == 6


@pytest.mark.parametrize(
    "changed, message, hint",
    [
        ({"key": ["a", None, "c"]}, "row 1 of part-.*: its key is null", "then import its new version"),
        ({"value": None}, "the table has no column 'value'", "value (string)"),
        ({"timestmap": [1, 2, 3]}, "a column 'timestmap', which", "did you mean 'timestamp'?"),
        ({"timestamp": [1, 2, 3]}, "'timestamp' of the table is int64", "cast it"),
    ],
)
def test_rows_that_are_none_of_the_format(
    spec: Spec, tmp_path: Path, changed: dict[str, Any], message: str, hint: str
) -> None:
    columns: dict[str, Any] = {**text_rows(3), **changed}
    table = write_rows(tmp_path / "table", {name: pa.array(each) for name, each in columns.items() if each is not None})
    assert hint in refused(RefusedError if "null" in message else SpecError, message, spec, table)


def test_a_value_that_its_serde_cannot_write_is_named_by_the_run(tmp_path: Path) -> None:
    spec = import_spec(tmp_path, conversion={**TEXT, "value": {"to": {"serde": "uuid"}}, **ALLOWED})
    table = write_rows(tmp_path / "table", text_rows(3))
    error = raises(ChunkFailedError, "row 0 of part-.* is not the text of a UUID", import_here, spec, table)
    assert "import its new version" in error.hint
    assert spec.target_path is not None
    assert not spec.target_path.exists()


def test_no_table_no_version(spec: Spec, tmp_path: Path) -> None:
    assert "stateferry export" in refused(RefusedError, "is no Delta table", spec, tmp_path / "nothing")
    assert "executor" in refused(RefusedError, "not in object stores", spec, Path("s3://bucket/orders"))
    table = write_rows(tmp_path / "table", text_rows(3))
    assert "the newest is 0" in refused(RefusedError, "has no version 7", spec, table, 7)


def test_another_table_or_version_than_the_one_that_was_begun(spec: Spec, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(3))
    write_rows(table, text_rows(4), mode="append")
    pin_table(Context(spec), table, 0)
    for other, version in ((table, 1), (tmp_path / "other", None)):
        error = raises(RefusedError, "imports version 0 of", pin_table, Context(spec), other, version)
        assert "stateferry abandon SPEC" in error.hint
    pin_table(Context(spec), table, 0)


def _log(table: Path, version: int, *actions: dict[str, Any]) -> None:
    (table / f"_delta_log/{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def _entries(table: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (table / f"_delta_log/{0:020}.json").read_text().splitlines()]


def test_deletion_vectors(spec: Spec, tmp_path: Path) -> None:
    """Such a table, once it is purged, has the feature in its protocol and no vector."""
    table = write_rows(tmp_path / "table", text_rows(3))
    (added,) = (each["add"] for each in _entries(table) if "add" in each)
    features = {name: ["deletionVectors"] for name in ("readerFeatures", "writerFeatures")}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    vector = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    marked = {**added, "deletionVector": {**vector, "sizeInBytes": 40, "cardinality": 1}}
    removed = {"path": added["path"], "partitionValues": {}, "deletionTimestamp": 1, "dataChange": True}
    _log(table, 1, protocol, {"remove": removed}, {"add": marked})
    hint = refused(RefusedError, "has deletion vectors", spec, table)
    assert "io.delta:delta-spark" in hint
    assert "APPLY (PURGE)" in hint
    _log(table, 2, {"remove": removed | {"deletionVector": marked["deletionVector"]}}, {"add": added})
    pin_table(Context(spec), table, 2)


def test_features_that_are_not_read(spec: Spec, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(3), configuration={"delta.columnMapping.mode": "none"})
    features = {name: ["typeWidening"] for name in ("readerFeatures", "writerFeatures")}
    _log(table, 1, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    refused(RefusedError, "features that are not read yet: typeWidening", spec, table)


def _gone(file: Path) -> None:
    file.unlink()


def _shorter(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("change, message", [(_gone, "is gone"), (_shorter, "has .* bytes, and .* by the table's log")])
def test_a_file_that_changes_between_two_runs(
    spec: Spec, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    table = write_rows(tmp_path / "table", text_rows(3))
    pin_table(Context(spec), table, None)
    (file,) = table.glob("*.parquet")
    change(file)
    error = raises(SourceChangedError, message, import_here, spec, table)
    assert "vacuumed" in error.hint


def test_a_damaged_file(spec: Spec, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(300))
    (file,) = table.glob("*.parquet")
    flip_byte(file, -2)
    refused(CorruptionError, "cannot be read", spec, table)


def test_times_before_1970_and_far_too_many_segments(tmp_path: Path) -> None:
    target = {"format": "kafka-streams.window", "retention_ms": 86_400_000}
    spec = import_spec(tmp_path, target=target)
    columns = {"key": pa.array([b"a", b"b"]), "value": pa.array([b"1", b"2"]), "sequence": pa.array([0, 0], pa.int32())}
    early = {**columns, "window_start": pa.array([0, -1000], TIME)}
    refused(RefusedError, "window_start is before 1970", spec, write_rows(tmp_path / "early", early))
    missing = {**columns, "window_start": pa.array([0, None], TIME)}
    refused(RefusedError, "row 1 of .*: its window_start is null", spec, write_rows(tmp_path / "missing", missing))
    many = {name: pa.concat_arrays([each] * 5000) for name, each in columns.items()}
    spread = pa.array([number * 86_400_000_000 for number in range(10_000)], TIME)
    table = write_rows(tmp_path / "many", {**many, "window_start": spread})
    assert "right unit" in refused(RefusedError, "10,000 segments of each of 3", spec, table)


def test_two_rows_with_one_key(spec: Spec, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(4, key=["a", "b", "a", "c"], timestamp=[1000, 0, 5000, 0]))
    error = raises(RefusedError, "row group 0 with the value .* and a row of part-", import_here, spec, table)
    assert 'get one new key, "a"' in error.message
    assert '[conversion] on_collision = "newest"' in error.hint
    assert spec.target_path is not None
    assert not spec.target_path.exists()
    newest = import_spec(tmp_path, conversion=TEXT | ALLOWED | {"on_collision": "newest"})
    report = import_here(newest, table)
    assert (report.totals.records_in, report.totals.records_out) == (4, 3)
    shutil.rmtree(spec.target_path)
