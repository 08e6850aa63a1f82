"""Stores for another version of Kafka Streams: what it keeps beside the records, where that version looks for it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from migrate import cutover, rollback, run, verify
from migrate.systems.kafka_streams import KAFKA_STREAMS, position_file
from tests.shared.windowed import (
    MINUTE,
    OFFSETS,
    PLAIN,
    TIMESTAMPED,
    UNKNOWN,
    checkpoint,
    offsets,
    position,
    read_segments,
    retentions,
    window_key,
    windowed_spec,
)
from tests.support import make_families, numbered, read_families, tree_state

KEY_VALUE = "kafka-streams.key-value"
TIMESTAMPED_KEY_VALUE = "kafka-streams.timestamped-key-value"
WINDOW = "kafka-streams.window"
RECORDS = numbered(50)
SEGMENT = 15 * MINUTE
POSITION = position("in", {0: 5, 3: 1 << 40})
POSITION_TEXT = checkpoint("in 0 5", "in 3 1099511627776")
LINE = checkpoint("app-win-changelog 0 77")
PUBLISHED = "new/app"


def _key_value(base: Path, own: dict[bytes, bytes] | None, **files: str) -> Path:
    families = {PLAIN: RECORDS} if own is None else {PLAIN: RECORDS, OFFSETS: own}
    store = make_families(base / "app/0_0/rocksdb/win", families)
    _write(base, files)
    return store


def _segments(base: Path, owns: Mapping[int, dict[bytes, bytes] | None], **files: str) -> Path:
    store = base / "app/0_0/win"
    for number, own in owns.items():
        start = number * SEGMENT
        records = {window_key(b"k", start): b"v", window_key(b"l", start + SEGMENT - 1): b"w"}
        make_families(store / f"win.{start}", {PLAIN: records} if own is None else {PLAIN: records, OFFSETS: own})
    _write(base, files)
    return store


def _write(base: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (base / "app/0_0" / f".{name}").write_text(text) if name == "checkpoint" else None
        (base / "app/0_0" / f"win.{name}").write_text(text) if name == "position" else None


def _task(base: Path, *, in_place: bool) -> Path:
    return base / ("app" if in_place else PUBLISHED) / "0_0"


def _migrate(
    base: Path, source: str, target: str, version: str | None, /, *, in_place: bool, **sections: object
) -> Path:
    """The task's directory, as the version is to find it."""
    section = {} if version is None else {"version": version}
    if not in_place:
        section["path"] = PUBLISHED
    retention = sections.get("target", {})
    assert isinstance(retention, dict)
    before = tree_state(base / "app")
    spec = windowed_spec(base, source, target, **{**sections, "target": {**retention, **section}})
    run(spec)
    assert tree_state(base / "app") == before
    if in_place:
        cutover(spec)
    assert verify(spec).verification.ok
    return _task(base, in_place=in_place)


def _texts(task: Path) -> dict[str, str]:
    """Of the side files that are there."""
    return {file.name: file.read_text() for file in task.iterdir() if file.is_file()}


EITHER = pytest.mark.parametrize("in_place", [True, False], ids=["in place", "published"])


@EITHER
@pytest.mark.parametrize("version", ["4.2", "3.9", "4.0.1"])
def test_an_older_version_finds_files_in_place_of_the_family(version: str, in_place: bool, tmp_path: Path) -> None:
    _key_value(tmp_path, offsets(77, position=POSITION))
    task = _migrate(tmp_path, KEY_VALUE, TIMESTAMPED_KEY_VALUE, version, in_place=in_place)
    new = {PLAIN: {}, TIMESTAMPED: {key: UNKNOWN + value for key, value in RECORDS.items()}}
    assert read_families(task / "rocksdb/win") == new
    assert _texts(task) == {".checkpoint": LINE, "win.position": POSITION_TEXT}


@EITHER
@pytest.mark.parametrize("version", ["4.3", None])
def test_a_newer_version_imports_the_file_and_is_given_no_family(
    version: str | None,
    in_place: bool,
    tmp_path: Path,
) -> None:
    _key_value(tmp_path, None, checkpoint=LINE, position=POSITION_TEXT)
    task = _migrate(tmp_path, KEY_VALUE, TIMESTAMPED_KEY_VALUE, version, in_place=in_place)
    assert set(read_families(task / "rocksdb/win")) == {PLAIN, TIMESTAMPED}
    assert _texts(task) == {".checkpoint": LINE, "win.position": POSITION_TEXT}


@EITHER
@pytest.mark.parametrize("version", ["4.3", None])
def test_the_same_version_finds_its_family(version: str | None, in_place: bool, tmp_path: Path) -> None:
    _key_value(tmp_path, offsets(77, position=POSITION))
    task = _migrate(tmp_path, KEY_VALUE, TIMESTAMPED_KEY_VALUE, version, in_place=in_place)
    assert read_families(task / "rocksdb/win")[OFFSETS] == offsets(77, position=POSITION)
    assert _texts(task) == {}


@EITHER
@pytest.mark.parametrize(("version", "is_family"), [("4.2", False), ("4.3", True)])
def test_a_checkpoint_beside_the_family_is_what_the_owner_would_believe(
    version: str,
    is_family: bool,
    in_place: bool,
    tmp_path: Path,
) -> None:
    _key_value(tmp_path, offsets(3699), checkpoint=checkpoint("app-win-changelog 0 100", "app-other-changelog 0 5"))
    task = _migrate(tmp_path, KEY_VALUE, TIMESTAMPED_KEY_VALUE, version, in_place=in_place)
    assert _texts(task) == {".checkpoint": checkpoint("app-win-changelog 0 100", "app-other-changelog 0 5")}
    assert (OFFSETS in read_families(task / "rocksdb/win")) == is_family


@EITHER
@pytest.mark.parametrize(
    ("owns", "offset"),
    [
        ({0: offsets(9), 1: offsets(8), 2: offsets(7)}, 7),
        ({0: offsets(9), 1: offsets(8), 2: offsets(None)}, 8),
        ({0: offsets(9), 1: offsets(None), 2: offsets(None)}, 9),
        ({0: offsets(9), 1: offsets(8), 2: None}, 8),
        ({2: offsets(7), 10: offsets(6), 9: offsets(5)}, 6),
        ({0: offsets(None), 1: offsets(None)}, None),
    ],
)
def test_of_segments_the_newest_one_that_knows_the_offset_tells_it(
    owns: dict[int, dict[bytes, bytes] | None],
    offset: int | None,
    in_place: bool,
    tmp_path: Path,
) -> None:
    """Not the one whose name comes last: 9000000 is older than 10000000."""
    _segments(tmp_path, owns)
    task = _migrate(tmp_path, WINDOW, WINDOW, "4.2", in_place=in_place)
    assert {tuple(families) for families in read_segments(task / "win").values()} == {(PLAIN,)}
    assert _texts(task) == ({} if offset is None else {".checkpoint": checkpoint(f"app-win-changelog 0 {offset}")})


@EITHER
@pytest.mark.parametrize("minutes", [20, 120])
def test_every_new_segment_knows_what_the_newest_old_ones_knew(minutes: int, in_place: bool, tmp_path: Path) -> None:
    """Also those that are made of older segments alone: the newest of them may soon be gone."""
    old = offsets(9, topic="elsewhere", position=position("in", {0: 1}))
    _segments(tmp_path, {0: old, 1: offsets(8, position=POSITION), 2: offsets(7), 3: offsets(None)})
    task = _migrate(tmp_path, WINDOW, WINDOW, "4.3", in_place=in_place, **retentions(2 * SEGMENT, minutes * MINUTE))
    expected = {**old, **offsets(7, position=POSITION)}
    new = read_segments(task / "win")
    assert len(new) == (3 if minutes == 20 else 1)
    assert [families[OFFSETS] for families in new.values()] == [dict(sorted(expected.items()))] * len(new)
    assert _texts(task) == {}


@EITHER
def test_segments_that_stay_keep_their_own_entries(in_place: bool, tmp_path: Path) -> None:
    owns = {0: offsets(9), 1: offsets(8, position=POSITION), 2: offsets(None)}
    _segments(tmp_path, owns)
    task = _migrate(tmp_path, WINDOW, "kafka-streams.timestamped-window", None, in_place=in_place)
    found = {start // SEGMENT: families[OFFSETS] for start, families in read_segments(task / "win").items()}
    assert found == owns


@pytest.mark.parametrize("sections", [{}, retentions(2 * SEGMENT, 20 * MINUTE)], ids=["as they are", "moved"])
def test_a_rollback_brings_the_family_back_and_takes_the_files_away(
    sections: dict[str, object], tmp_path: Path
) -> None:
    _segments(tmp_path, {number: offsets(77, position=POSITION) for number in range(3)})
    (tmp_path / "app/0_0/rocksdb").mkdir()
    before = tree_state(tmp_path / "app")
    _migrate(tmp_path, WINDOW, "kafka-streams.timestamped-window", "4.2", in_place=True, **sections)
    target = {**sections.get("target", {}), "version": "4.2"}  # type: ignore[dict-item]
    spec = windowed_spec(tmp_path, WINDOW, "kafka-streams.timestamped-window", **{**sections, "target": target})
    rollback(spec)
    after = tree_state(tmp_path / "app")
    assert {name: state[1:] for name, state in after.items()} == {name: state[1:] for name, state in before.items()}
    cutover(spec)
    assert _texts(tmp_path / "app/0_0") == {".checkpoint": LINE, "win.position": POSITION_TEXT}


def test_a_rollback_leaves_the_lines_of_other_stores(tmp_path: Path) -> None:
    other = checkpoint("app-other-changelog 0 5")
    _key_value(tmp_path, offsets(77), checkpoint=other)
    _migrate(tmp_path, KEY_VALUE, TIMESTAMPED_KEY_VALUE, "4.2", in_place=True)
    assert _texts(tmp_path / "app/0_0")[".checkpoint"] == checkpoint(
        "app-other-changelog 0 5", "app-win-changelog 0 77"
    )
    rollback(windowed_spec(tmp_path, KEY_VALUE, TIMESTAMPED_KEY_VALUE, target={"version": "4.2"}))
    assert _texts(tmp_path / "app/0_0") == {".checkpoint": other}


@EITHER
@pytest.mark.parametrize("stores", [("win", "x-win"), ("x-win", "win")])
def test_stores_of_one_task_whose_names_end_alike_keep_their_lines_apart(
    stores: tuple[str, ...],
    in_place: bool,
    tmp_path: Path,
) -> None:
    """`app-x-win-changelog` is the one of `win`, in an application that is called `app-x`."""
    for number, store in enumerate(stores):
        own = offsets(number, topic=f"app-x-{store}-changelog")
        make_families(tmp_path / "app-x/0_0/rocksdb" / store, {PLAIN: RECORDS, OFFSETS: own})
    target = {"version": "4.2"} if in_place else {"version": "4.2", "path": "elsewhere/app-x"}
    source = {"path": "app-x", "store": None, "stores": list(stores)}
    spec = windowed_spec(tmp_path, KEY_VALUE, source=source, target=target)
    run(spec)
    if in_place:
        cutover(spec)
    lines = [f"app-x-{store}-changelog 0 {number}" for number, store in enumerate(stores)]
    file = tmp_path / ("app-x" if in_place else "elsewhere/app-x") / "0_0/.checkpoint"
    assert file.read_text() == checkpoint(*lines)


def test_a_store_without_segments_says_what_its_file_says(tmp_path: Path) -> None:
    (tmp_path / "app/0_0/win").mkdir(parents=True)
    (tmp_path / "app/0_0/.checkpoint").write_text(LINE)
    task = _migrate(tmp_path, WINDOW, WINDOW, "4.2", in_place=False)
    assert (list((task / "win").iterdir()), _texts(task)) == ([], {".checkpoint": LINE})


# What PositionSerde writes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (bytes.fromhex("00 00000001 00000001 74 00000001 00000000 0000000000000005") + bytes(175), checkpoint("t 0 5")),
        (position("in", {0: 0, 7: (1 << 63) - 1}), checkpoint("in 0 0", "in 7 9223372036854775807")),
        (position("in", {}), None),
        (bytes(5), None),
        (bytes(202), None),
        (b"", None),
        (b"\x00\xff\xff\xff\xff", None),
        (position("in", {0: 5})[:22], None),
        (bytes.fromhex("00 00000001 ffffffff 74"), None),
        (bytes.fromhex("00 00000001 00000001 ff 00000001 00000000 0000000000000005"), None),
    ],
)
def test_a_position_becomes_the_text_of_its_file_or_says_nothing(value: bytes, text: str | None) -> None:
    assert position_file(value) == text


def test_positions_within_are_read_from_the_family_alone(tmp_path: Path) -> None:
    _segments(tmp_path, {0: None, 1: offsets(5, position=b"damaged")})
    folders = sorted((tmp_path / "app/0_0/win").iterdir(), reverse=True)
    shutil.rmtree(tmp_path / "app/0_0/win/win.0")
    make_families(folders[-1], {PLAIN: {b"app-win-changelog-0": bytes(8)}})
    (partition,) = KAFKA_STREAMS.layout.find(tmp_path / "app", ["win"], is_segmented=True)
    found = KAFKA_STREAMS.offsets.within("app", partition, folders)
    assert (found.lines, found.own_file) == ((("app-win-changelog", 0, 5),), None)
