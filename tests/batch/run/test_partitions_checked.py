"""What a verification finds in new store partitions, and what is refused where their number changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from formats.partitioners import default_partition
from migrate import (
    RefusedError,
    RejectedError,
    SourceChangedError,
    Spec,
    VerificationError,
    replay,
    run,
    verify,
)
from migrate.model.events import Event
from tests.batch.run.test_partitions import (
    PLAIN,
    TIMED,
    WINDOWS,
    Kind,
    make_application,
    published,
    spec_of,
    spread,
)
from tests.shared.windowed import window_time
from tests.support import UNKNOWN_TIMESTAMP, flip_byte, make_families, numbered, open_store, raises, read_delta

Mode = Literal["full", "digest"]
Change = Callable[[Callable[[int], Path]], None]


def _spec(tmp_path: Path, new: int = 3, **sections: object) -> Spec:
    app = make_application(tmp_path / "app", {"orders": spread(PLAIN, 2)})
    return spec_of(tmp_path, app, new, **sections)


def _first(number: int) -> bytes:
    return min(key for key in PLAIN if default_partition(key, 3) == number)


def _put(store: Path, key: bytes, value: bytes) -> None:
    with open_store(store) as database:
        database.get_column_family(TIMED)[key] = value


def _remove(store: Path, key: bytes) -> None:
    with open_store(store) as database:
        del database.get_column_family(TIMED)[key]


def _lose(of: Callable[[int], Path]) -> None:
    _remove(of(1), _first(1))


def _double(of: Callable[[int], Path]) -> None:
    _put(of(2), _first(1), UNKNOWN_TIMESTAMP + PLAIN[_first(1)])


def _misplace(of: Callable[[int], Path]) -> None:
    _lose(of)
    _double(of)


def _alter(of: Callable[[int], Path]) -> None:
    _put(of(1), _first(1), UNKNOWN_TIMESTAMP + b"another")


@pytest.mark.parametrize("mode", ["full", "digest"])
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_lose, "1 key missing, 0 differing, 0 extra"),
        (_double, "0 keys missing, 0 differing, 1 extra"),
        (_misplace, "1 key missing, 0 differing, 1 extra"),
        (_alter, "0 keys missing, 1 differing, 0 extra"),
    ],
)
def test_a_record_that_is_wrong_in_a_new_store_is_found(tmp_path: Path, change: Change, found: str, mode: Mode) -> None:
    spec = _spec(tmp_path)
    run(spec)
    assert spec.target_path is not None
    root = spec.target_path
    change(lambda number: root / f"0_{number}" / "rocksdb" / "orders")
    error = raises(VerificationError, found, verify, spec, mode=mode)
    assert "0_1/orders" in str(error) or "0_2/orders" in str(error)


def test_a_damaged_chunk_is_made_again_for_its_new_task_alone(tmp_path: Path) -> None:
    spec = _spec(tmp_path, run={"chunk_size": "16 KiB"})
    damaged: list[Path] = []
    started: list[str] = []

    def listen(event: Event) -> None:
        if event.name == "chunk.started":
            started.append(str(event.facts["task"]))
        elif event.name == "dead-letters.written" and not damaged:
            damaged.append(min((spec.home / "chunks" / "0_1" / "orders").rglob("*.sst")))
            flip_byte(damaged[0], damaged[0].stat().st_size // 2)
            started.clear()

    report = run(spec, on_event=listen)
    assert len(started) == 1
    assert started[0].startswith("0_1/orders")
    assert any("is rewritten" in warning for warning in report.warnings)
    expected = spread({key: UNKNOWN_TIMESTAMP + value for key, value in PLAIN.items()}, 3)
    assert published(spec, TIMED) == expected


def test_one_new_task_may_have_most_records(tmp_path: Path) -> None:
    keys = [b"key-%06d" % number for number in range(6000)]
    mine = [key for key in keys if default_partition(key, 12) == 5]
    others = [key for key in keys if default_partition(key, 12) != 5]
    records = dict.fromkeys(sorted([*mine, *others[: len(mine) * 2 // 3]]), b"value")
    app = make_application(tmp_path / "app", {"orders": spread(records, 2)})
    spec = spec_of(tmp_path, app, 12, run={"chunk_size": "1 KiB"})
    assert run(spec).verification.ok
    found = published(spec, TIMED)
    assert found == spread(dict.fromkeys(records, UNKNOWN_TIMESTAMP + b"value"), 12)
    assert len(found[5]) * 10 >= len(records) * 6


def test_the_native_engine_says_why_it_cannot(tmp_path: Path) -> None:
    spec = _spec(tmp_path, run={"engine": "native"})
    raises(RefusedError, "the number of partitions changes, and records are split by their keys", run, spec)


def test_a_misplaced_window_is_refused_by_its_keys_payload(tmp_path: Path) -> None:
    app = Kind("window", "window", "default", WINDOWS, behind=12, time=window_time).make(tmp_path / "app", 2)
    store = app / "0_0" / "orders"
    segment = min(store.iterdir())
    stray = next(key for key in WINDOWS if default_partition(key[:-12], 2) == 1 and segment.name.endswith(".0"))
    make_families(segment, {"default": {stray: b"value"}})
    formats = {side: {"format": "kafka-streams.window"} for side in ("source", "target")}
    spec = spec_of(tmp_path, app, 3, **formats)
    error = raises(
        RefusedError, "the store 'orders' is in task 0_0, and murmur2 of 2 partitions puts it into 0_1", run, spec
    )
    assert not (tmp_path / "new").exists()
    assert "[source] partitioner" in error.hint


def test_a_store_that_its_owner_upgrades_is_refused(tmp_path: Path) -> None:
    app = tmp_path / "app"
    for number, mine in enumerate(spread(PLAIN, 2)):
        make_families(app / f"0_{number}" / "rocksdb" / "orders", {"default": mine, TIMED: {}})
    formats = {side: {"format": "kafka-streams.timestamped-key-value"} for side in ("source", "target")}
    raises(RefusedError, "the store is being upgraded by its owner", run, spec_of(tmp_path, app, 3, **formats))


def _by_length(tmp_path: Path, code: str) -> Spec:
    """Two old tasks and four new ones, by the function with this code."""
    (tmp_path / "by_length.py").write_text(f"def of(key, many):\n    return {code}\n", encoding="utf-8")
    old: list[dict[bytes, bytes]] = [{}, {}]
    for key, value in PLAIN.items():
        old[len(key) // 2 % 2][key] = value
    app = make_application(tmp_path / "app", {"orders": old})
    return spec_of(tmp_path, app, 4, source={"partitioner": "by_length:of"})


def test_a_function_may_mix_all_partitions(tmp_path: Path) -> None:
    spec = _by_length(tmp_path, "len(key) // 2 % 2 if many == 2 else len(key) % many")
    run(spec)
    new: list[dict[bytes, bytes]] = [{}, {}, {}, {}]
    for key, value in PLAIN.items():
        new[len(key) % 4][key] = UNKNOWN_TIMESTAMP + value
    assert published(spec, TIMED) == new


def test_another_partitioner_is_another_migration(tmp_path: Path) -> None:
    spec = _by_length(tmp_path, "len(key) // 2 % many")

    def stop(event: Event) -> None:
        if event.name == "plan.stored":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, on_event=stop)
    raises(SourceChangedError, "its code", run, _by_length_again(spec, tmp_path))


def _by_length_again(spec: Spec, tmp_path: Path) -> Spec:
    code = "def of(key, many):\n    return len(key) // 2 % many + 0\n"
    (tmp_path / "by_length.py").write_text(code, encoding="utf-8")
    return spec


_PICKY = """
def convert(record):
    if record.key.endswith(b"7"):
        raise ValueError("no sevens")
    return None if record.key.endswith(b"3") else record
"""
_MENDED = _PICKY.replace('raise ValueError("no sevens")', "return record")


def test_rejected_and_dropped_records_are_those_of_their_new_task(tmp_path: Path) -> None:
    records = {key: b"value" for key in numbered(600)}
    module = tmp_path / "picky_partitions.py"
    module.write_text(_PICKY, encoding="utf-8")
    app = make_application(tmp_path / "app", {"orders": spread(records, 2)})
    sections = {
        "conversion": {"function": "picky_partitions:convert", "allow": ["changelog", "drop", "unclean-source"]},
        "run": {"on_reject": "dead-letter", "chunk_size": "2 KiB"},
    }
    spec = spec_of(tmp_path, app, 3, **sections)
    raises(RejectedError, "60 records could not be converted", run, spec)
    letters = read_delta(spec.home / "dead-letters")
    of = {row["key"]: row["store_partition"] for row in letters}
    assert of == {key: f"0_{default_partition(key, 3)}/orders" for key in records if key.endswith(b"7")}
    module.write_text(_MENDED, encoding="utf-8")
    report = replay(spec_of(tmp_path, app, 3, **sections))
    assert report.totals.dropped == 60
    kept = {key: UNKNOWN_TIMESTAMP + value for key, value in records.items() if not key.endswith(b"3")}
    assert published(spec, TIMED) == spread(kept, 3)


@pytest.mark.parametrize("new", [3, 4])
def test_one_misplaced_key_that_no_sample_has_is_refused_by_the_run(tmp_path: Path, new: int) -> None:
    records = dict.fromkeys(numbered(20_000), b"value")
    old = spread(records, 2)
    stray = sorted(old[0])[5_001]
    old[1] = dict(sorted((old[1] | {stray: old[0].pop(stray)}).items()))
    spec = spec_of(tmp_path, make_application(tmp_path / "app", {"orders": old}), new)
    belongs = "is in task 0_1, and murmur2 of 2 partitions puts it into 0_0"
    error = raises(RefusedError, f'the key "{stray.decode()}" of the store .orders. {belongs}', run, spec)
    assert not (tmp_path / "new").exists()
    assert "[source] partitioner" in error.hint
