"""Task directories that a renumbering of subtopologies has left behind, beside those that the application uses."""

from pathlib import Path

import pytest

from migrate import QueryableStores, QueryableStoreTypes, StoreDefinition, cutover, plan, run, snapshot, verify
from migrate.errors import RefusedError, SpecError
from migrate.spec.spec import Spec, parse_spec
from tests.shared.windowed import checkpoint
from tests.support import make_store, raises, read_family

TOPIC = "app-kv-changelog"
OLD = {b"k%d" % number: b"old" for number in range(20)} | {b"gone": b"old"}
NEW = {b"k%d" % number: b"new" for number in range(20)}


def _task(app: Path, name: str, records: dict[bytes, bytes], *, offset: int | None, store: str = "kv") -> Path:
    directory = make_store(app / name / "rocksdb" / store, records)
    if offset is not None:
        number = name.replace("-", "_").rpartition("_")[2]
        (app / name / ".checkpoint").write_text(checkpoint(f"{TOPIC} {number} {offset}"), encoding="ascii")
    return directory


def _spec(base: Path, /, *, system: str = "kafka-streams", is_live: bool = True, **source: object) -> Spec:
    content = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": f"{system}.key-value", "path": "app", "store": "kv", **source},
        "target": {"format": f"{system}.timestamped-key-value"},
        "run": {"source": "live" if is_live else "snapshot"},
    }
    return parse_spec(content, base_dir=base)


@pytest.fixture
def renumbered(tmp_path: Path) -> Path:
    _task(tmp_path / "app", "0_0", OLD, offset=20)
    _task(tmp_path / "app", "1_0", NEW, offset=60)
    _task(tmp_path / "app", "1_1", NEW, offset=40)
    return tmp_path


def test_two_directories_of_one_changelog_partition_are_refused(renumbered: Path) -> None:
    spec = _spec(renumbered)
    found = plan(spec).verdict
    assert found.exit_code == 6
    assert "0_0/kv (at offset 21) and 1_0/kv (at offset 61) are directories of one changelog" in found.sentence
    assert "0_0 is behind" in found.sentence
    assert found.next_step.endswith('[source] leave_out = ["0_0"]')
    raises(RefusedError, "0_0 is behind", run, spec)
    with pytest.raises(RefusedError, match="0_0 is behind"):
        snapshot(_spec(renumbered, is_live=False))
    assert not (spec.home / "snapshot").exists()


def test_what_is_left_out_is_not_touched_by_any_verb(renumbered: Path) -> None:
    spec, left = _spec(renumbered, leave_out=["0_0"]), renumbered / "app" / "0_0" / "rocksdb" / "kv"
    assert plan(spec).verdict.go
    assert run(spec).store_partitions == 2
    assert verify(spec).verification.records == 2 * len(NEW)
    cutover(spec)
    assert read_family(left, "default") == OLD
    for task in ("1_0", "1_1"):
        new = read_family(renumbered / "app" / task / "rocksdb" / "kv", "keyValueWithTimestamp")
        assert {key: value[8:] for key, value in new.items()} == NEW
    assert {each.id for each in QueryableStores.of_migration(spec).partitions("kv")} == {"1_0/kv", "1_1/kv"}


def test_it_belongs_to_the_identity(renumbered: Path) -> None:
    app = renumbered / "app"
    (app / "0_0").rename(renumbered / "aside")
    assert run(_spec(renumbered)).store_partitions == 2
    assert run(_spec(renumbered, leave_out=[])).store_partitions == 2
    (renumbered / "aside").rename(app / "0_0")
    with pytest.raises(RefusedError, match=r"changed since: \[source\]"):
        run(_spec(renumbered, leave_out=["0_0"]))


def test_where_nothing_tells_which_one_is_behind_none_is_named(tmp_path: Path) -> None:
    _task(tmp_path / "app", "0_0", OLD, offset=20)
    _task(tmp_path / "app", "1_0", NEW, offset=None)
    found = plan(_spec(tmp_path)).verdict
    assert "1_0/kv (which states no position)" in found.sentence
    assert "nothing tells which is behind" in found.sentence
    assert '"0_0"' not in found.next_step


def test_tasks_of_streamiz_are_compared_too(tmp_path: Path) -> None:
    _task(tmp_path / "app", "0-0", OLD, offset=20)
    _task(tmp_path / "app", "1-0", NEW, offset=60)
    found = plan(_spec(tmp_path, system="streamiz")).verdict
    assert (found.exit_code, '["0-0"]' in found.next_step) == (6, True)


def test_stores_of_one_name_in_two_topologies_are_different_ones(tmp_path: Path) -> None:
    for topology in ("__a__", "__b__"):
        make_store(tmp_path / "app" / topology / "0_0" / "rocksdb" / "kv", NEW)
    assert run(_spec(tmp_path)).store_partitions == 2


def test_what_has_no_other_directory_is_said_when_it_is_left_out(renumbered: Path) -> None:
    (warning,) = [each for each in run(_spec(renumbered, leave_out=["0_0", "1_1"])).warnings if "left out" in each]
    assert warning.startswith("1_1/kv: left out, and no other task directory here has its changelog partition")
    with pytest.raises(RefusedError, match="leaves no task directory of the store 'kv'"):
        run(_spec(renumbered, leave_out=["0_0", "1_0", "1_1"]))
    raises(SpecError, "`leave_out` names task directories", _spec, renumbered, store=None, leave_out=["0_0"])


def test_queries_are_not_answered_from_what_was_left_behind(renumbered: Path) -> None:
    definitions = {"kv": StoreDefinition("kafka-streams.key-value")}
    for stores in (
        QueryableStores.of_directory(renumbered / "app", definitions),
        QueryableStores.of_migration(_spec(renumbered)),
    ):
        with pytest.raises(RefusedError, match=r"0_0 and 1_0 in .* both have partition 0 of the store 'kv'") as caught:
            stores.store("kv", QueryableStoreTypes.key_value())
        assert "leave_out" in caught.value.hint
    left_out = QueryableStores.of_migration(_spec(renumbered, leave_out=["0_0"]))
    assert left_out.store("kv", QueryableStoreTypes.key_value()).get(b"gone") is None
