"""Streamiz' state directories, laid out as by it; `test_streamiz_states.py` has some that it wrote itself."""

from pathlib import Path

import pytest

from migrate import RefusedError
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.stores.lock import lock_holders
from migrate.systems.checkpoint_file import translate_lines
from migrate.systems.kafka_streams import KAFKA_STREAMS
from migrate.systems.streamiz import STREAMIZ
from migrate.systems.task_tree import KAFKA_STREAMS_TREE, STREAMIZ_TREE
from tests.support import make_store, numbered, open_store

NEWLINES = pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["linux", "windows"])
HOUR = 3_600_000


def as_streamiz_writes(lines: list[Line], newline: str = "\n") -> bytes:
    """OffsetCheckpointFile.Write: StreamWriter.WriteLine ends lines as its machine does, and writes no mark before."""
    texts = ["0", str(len(lines)), *(f"{topic} {number} {offset}" for topic, number, offset in lines)]
    return "".join(f"{text}{newline}" for text in texts).encode()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Two tasks and a global store, as Streamiz leaves them in StateDir."""
    application = tmp_path / "billing"
    for task in ("0-0", "0-1", "10-2"):
        make_store(application / task / "rocksdb/totals", numbered(5))
    for start in (0, 2 * HOUR, 10 * HOUR):
        make_store(application / f"0-0/hourly/hourly.{start}", numbered(3))
    make_store(application / "global/rocksdb/rates", numbered(2))
    lines = [("billing-totals-changelog", 0, 42), ("billing-hourly-changelog", 0, 7)]
    (application / "0-0/.checkpoint").write_bytes(as_streamiz_writes(lines))
    (tmp_path / "streamiz-process-metadata").write_text('{"processId":"6f0a1f9e-6f1c-4d4e-9f1a-0a5c4c9e4b11"}')
    return application


def totals(app: Path) -> StorePartition:
    return STREAMIZ_TREE.find(app, ["totals"], is_segmented=False)[0]


def test_tasks_are_found_in_the_order_of_their_numbers(app: Path) -> None:
    found = STREAMIZ_TREE.find(app, ["totals", "rates"], is_segmented=False)
    assert [(each.id, str(each.path), each.databases) for each in found] == [
        ("0-0/totals", "0-0/rocksdb/totals", (".",)),
        ("0-1/totals", "0-1/rocksdb/totals", (".",)),
        ("10-2/totals", "10-2/rocksdb/totals", (".",)),
        ("global/rates", "global/rocksdb/rates", (".",)),
    ]


def test_segments_are_found_and_what_lies_among_them_too(app: Path) -> None:
    (app / "0-0/hourly/hourly.bak").mkdir()
    (app / "0-0/hourly/notes.txt").touch()
    (found,) = STREAMIZ_TREE.find(app, ["hourly"], is_segmented=True)
    assert (found.id, str(found.path)) == ("0-0/hourly", "0-0/hourly")
    assert found.databases == ("hourly.0", "hourly.36000000", "hourly.7200000", "hourly.bak")
    starts = [STREAMIZ.segments.start("hourly", name) for name in found.databases]
    assert starts == [0, 10 * HOUR, 2 * HOUR, None]


@pytest.mark.parametrize("name", ["hourly:0", "hourly-202601010000", "hourly.x", "hourly", "other.0", "hourly.0.0"])
def test_a_name_of_another_form_is_no_segment(name: str) -> None:
    assert STREAMIZ.segments.start("hourly", name) is None


@pytest.mark.parametrize(
    ("store", "is_segmented", "message"),
    [
        ("total", False, "no key-value store 'total' in .*"),
        ("hourly", False, "'hourly' is a windowed or session store"),
        ("totals", True, "'totals' is a key-value store"),
        ("weekly", True, "no windowed or session store 'weekly' in .*"),
    ],
)
def test_what_is_there_instead_is_told(app: Path, store: str, is_segmented: bool, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        STREAMIZ_TREE.find(app, [store], is_segmented=is_segmented)


@pytest.mark.parametrize(
    ("part", "message", "hint"),
    [
        ("..", r"holds no task directory \(like 0-0\); there are: billing", "did you mean '.*/billing'"),
        ("0-0", "is a task directory, which holds", "did you mean '.*/billing'"),
        ("0-0/rocksdb/totals", "is a RocksDB directory", "leave `store` out"),
        ("../nowhere", "does not exist", "<StateDir>/<ApplicationId>"),
    ],
)
def test_another_directory_than_the_application_s_is_refused(app: Path, part: str, message: str, hint: str) -> None:
    with pytest.raises(RefusedError, match=message) as caught:
        STREAMIZ_TREE.find((app / part).resolve(), ["totals"], is_segmented=False)
    assert caught.value.hint is not None
    assert hint.partition("'")[0] in caught.value.hint


# Task names, from one system to the other


@pytest.mark.parametrize(("streamiz", "kafka"), [("0-0", "0_0"), ("10-2", "10_2")])
def test_a_task_has_another_name_in_kafka_streams(streamiz: str, kafka: str) -> None:
    assert KAFKA_STREAMS_TREE.task_name(STREAMIZ_TREE.task_numbers(streamiz)) == kafka
    assert STREAMIZ_TREE.task_name(KAFKA_STREAMS_TREE.task_numbers(kafka)) == streamiz


@pytest.mark.parametrize("task", ["global", "0_0", "0-0-0", "__billing__/0-0"])
def test_what_is_no_task_has_no_numbers(task: str) -> None:
    with pytest.raises(RefusedError, match=f"task {task} has no name of two numbers"):
        STREAMIZ_TREE.task_numbers(task)


def test_a_store_lies_where_kafka_streams_has_it(app: Path) -> None:
    for task, store, is_segmented in (("0-0", "totals", False), ("0-0", "hourly", True)):
        place = STREAMIZ_TREE.place(task, store, is_segmented=is_segmented)
        assert (app / place).is_dir()
        assert place == KAFKA_STREAMS_TREE.place(task, store, is_segmented=is_segmented)


def test_the_segment_interval_does_not_follow_from_the_retention() -> None:
    assert STREAMIZ.segments.size(86_400_000, None) == HOUR
    assert STREAMIZ.segments.size(86_400_000, 60_000) == 60_000


# Changelog offsets


@NEWLINES
def test_a_store_s_own_lines_are_told_from_the_others(app: Path, newline: str) -> None:
    lines = [("billing-hourly-changelog", 0, 7), ("billing-totals-changelog", 0, 42), ("rates", 0, 3)]
    (app / "0-0/.checkpoint").write_bytes(as_streamiz_writes(lines, newline))
    assert STREAMIZ.offsets.read(app, totals(app)) == ChangelogOffsets(lines=(lines[1],))
    moved = STREAMIZ.offsets.write(app, totals(app), ChangelogOffsets(lines=(("billing-totals-changelog", 0, 40),)))
    expected = as_streamiz_writes([lines[0], ("billing-totals-changelog", 0, 40), lines[2]]).decode()
    assert moved == {Path("0-0/.checkpoint"): expected, Path("0-0/.checkpoint.rec"): None}


def test_what_streamiz_wrote_is_written_again_byte_for_byte(app: Path) -> None:
    kept = STREAMIZ.offsets.write(app, totals(app), STREAMIZ.offsets.read(app, totals(app)))
    assert (app / "0-0/.checkpoint").read_bytes() == (kept[Path("0-0/.checkpoint")] or "").encode()


def test_the_recovery_copy_is_read_where_the_file_is_missing(app: Path) -> None:
    (app / "0-0/.checkpoint").rename(app / "0-0/.checkpoint.rec")
    assert STREAMIZ.offsets.read(app, totals(app)).lines == (("billing-totals-changelog", 0, 42),)
    (app / "0-0/.checkpoint").write_bytes(as_streamiz_writes([("billing-totals-changelog", 0, 50)]))
    assert STREAMIZ.offsets.read(app, totals(app)).lines == (("billing-totals-changelog", 0, 50),)


def test_where_there_was_no_file_there_is_none(app: Path) -> None:
    (app / "0-0/.checkpoint").unlink()
    assert set(STREAMIZ.offsets.write(app, totals(app), ChangelogOffsets()).values()) == {None}


def test_a_damaged_file_is_refused_in_the_owner_s_name(app: Path) -> None:
    (app / "0-0/.checkpoint").write_text("0\n3\nbilling-totals-changelog 0 42\n")
    with pytest.raises(RefusedError, match=r"\.checkpoint is not a checkpoint of version 0 with 3 lines") as caught:
        STREAMIZ.offsets.read(app, totals(app))
    assert "let Streamiz replay" in (caught.value.hint or "")


def test_unknown_and_missing_positions_are_warned_of(app: Path) -> None:
    (app / "0-0/.checkpoint").write_bytes(as_streamiz_writes([("billing-totals-changelog", 0, -4)]))
    assert STREAMIZ.offsets.warnings(app, STREAMIZ_TREE.find(app, ["totals"], is_segmented=False)) == [
        "0-0: the changelog position of billing-totals-changelog-0 is unknown, Streamiz will replay it",
        "0-1 has no .checkpoint: Streamiz will replay the changelogs from their beginning",
        "10-2 has no .checkpoint: Streamiz will replay the changelogs from their beginning",
    ]


def write_version(directory: Path, version: str) -> None:
    """As if that RocksDB had written it."""
    (options,) = directory.glob("OPTIONS-*")
    lines = options.read_text().splitlines()
    options.write_text(
        "\n".join(f"  rocksdb_version={version}" if "rocksdb_version=" in line else line for line in lines)
    )


@pytest.mark.parametrize(
    ("rocksdb", "streamiz"),
    [("6.26.1", "1.2"), ("7.7.3", "1.4, 1.5 or 1.6"), ("9.4.0", "1.7"), ("10.4.2", "1.8"), ("9.8.4", None)],
)
def test_the_version_is_known_by_its_rocksdb(app: Path, rocksdb: str, streamiz: str | None) -> None:
    directory = app / totals(app).path
    write_version(directory, rocksdb)
    words = None if streamiz is None else f"Streamiz {streamiz}: that carries RocksDB {rocksdb}"
    assert STREAMIZ.discovery.owner_version(directory) == words


def problem_of(app: Path) -> str | None:
    return STREAMIZ.offsets.problem(app, totals(app), STREAMIZ.offsets.read(app, totals(app)).lines)


def test_a_position_of_1_7_may_be_past_the_last_record(app: Path) -> None:
    write_version(app / totals(app).path, "9.4.0")
    assert "may write a position" in (problem_of(app) or "")
    write_version(app / totals(app).path, "7.7.3")
    assert problem_of(app) is None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [([], "has no line for it"), ([("billing-totals-changelog", 0, -4)], "says that its position is unknown")],
)
def test_a_position_that_is_not_written_is_not_known(app: Path, lines: list[Line], reason: str) -> None:
    write_version(app / totals(app).path, "7.7.3")
    (app / "0-0/.checkpoint").write_bytes(as_streamiz_writes(lines))
    assert reason in (problem_of(app) or "")


@pytest.mark.parametrize(
    ("streamiz", "kafka", "back"),
    [(42, 41, 42), (1, 0, 1), (0, -4, -4), (-4, -4, -4)],
)
def test_kafka_streams_writes_the_last_record_and_streamiz_the_next(streamiz: int, kafka: int, back: int) -> None:
    there = translate_lines([("t", 3, streamiz)], STREAMIZ, KAFKA_STREAMS)
    assert there == (("t", 3, kafka),)
    assert translate_lines(there, KAFKA_STREAMS, STREAMIZ) == (("t", 3, back),)
    assert translate_lines([("t", 3, streamiz)], STREAMIZ, STREAMIZ) == (("t", 3, streamiz),)


# Locks


@pytest.mark.parametrize("held", ["0-0/rocksdb/totals", "0-1/rocksdb/totals", "0-0/hourly/hourly.0"])
def test_a_running_application_is_noticed_by_any_store_that_it_holds(app: Path, held: str) -> None:
    files = STREAMIZ.layout.lock_files(app, [totals(app)])
    assert lock_holders(files) == {}
    with open_store(app / held):
        assert set(lock_holders(STREAMIZ.layout.lock_files(app, [totals(app)]))) == {app / held / "LOCK"}
