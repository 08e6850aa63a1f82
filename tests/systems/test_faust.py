"""Faust's directories, written by the real Faust."""

import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from formats.serdes.json_text import JsonSerde
from migrate import (
    QueryableStores,
    QueryableStoreTypes,
    RefusedError,
    SideBySideStores,
    Spec,
    SpecError,
    StoreDefinition,
    cutover,
    init_spec,
    inspect,
    plan,
    rejects,
    rollback,
    run,
)
from migrate.batch.changelog.store_changelogs import changelogs, positions
from migrate.batch.source.source import application_of, find_source
from migrate.spec.spec import parse_spec
from migrate.systems.faust import FAUST
from tests.live.faust.tables import make_table
from tests.support import FIXTURE, KEY_VALUE, RAW, read_families

OFFSET = b"__faust\0offset__"
COUNTS = {0: {f"k{n}": n for n in range(0, 40, 2)}, 1: {f"k{n}": n for n in range(1, 40, 2)}}
BROKER = {"bootstrap": "localhost:9"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory of an application with a table of two partitions."""
    return make_table(tmp_path / "shop-data", "counts", COUNTS, offsets={0: 19, 1: 24}, key_type=str)


def spec_of(home: Path, **sections: Any) -> Spec:  # noqa: ANN401 - of TOML
    content: dict[str, Any] = {
        "name": "counts",
        "work_dir": "work",
        "source": {"format": "faust.table", "path": str(home), "store": "counts"},
        "target": {"format": "faust.table"},
        "conversion": {"function": "tests.shared.conversions:in_object", "allow": ["changelog", "unclean-source"]},
    }
    merged = {name: {**content.get(name, {}), **section} for name, section in sections.items()}
    return parse_spec(content | merged, base_dir=home.parents[1])


def test_its_tables_are_found_and_their_offsets(home: Path) -> None:
    make_table(home.parent, "by-day-7", {0: {"a": 1}, 11: {"b": 2}}, key_type=str)
    found = FAUST.layout.find(home, ["by-day-7", "counts"], is_segmented=False)
    assert [(each.id, str(each.path)) for each in found] == [
        ("0/by-day-7", "tables/by-day-7-0.db"),
        ("11/by-day-7", "tables/by-day-7-11.db"),
        ("0/counts", "tables/counts-0.db"),
        ("1/counts", "tables/counts-1.db"),
    ]
    lines = [FAUST.offsets.within("shop", each, each.directories(home).values()).lines for each in found]
    assert lines == [(), (), (("shop-counts-changelog", 0, 19),), (("shop-counts-changelog", 1, 24),)]
    assert [each.parent.name for each in FAUST.layout.lock_files(home, [])] == [
        "by-day-7-0.db",
        "counts-0.db",
        "counts-1.db",
        "by-day-7-11.db",
    ]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("shop-data", "holds no directory 'tables'"),
        ("shop-data/v2", "does not exist"),
        ("shop-data/v1", "no table 'count' in"),
    ],
)
def test_what_is_not_there_is_said(home: Path, path: str, said: str) -> None:
    with pytest.raises(RefusedError) as refused:
        FAUST.layout.find(home.parents[1] / path, ["count"], is_segmented=False)
    assert said in refused.value.message
    assert "<datadir>/v<version>" in refused.value.hint or "did you mean 'counts'?" in refused.value.hint


def test_init_writes_a_spec_that_can_be_run_cut_over_and_taken_back(home: Path) -> None:
    report = init_spec(home, to="faust.table", output=home.parents[1] / "spec.toml")
    assert (report.store, report.source_format, report.records) == ("counts", "faust.table", 42)
    assert "application_id" not in report.text
    spec = spec_of(home)
    assert plan(spec).verdict.exit_code == 0
    assert run(spec).verification.ok
    cutover(spec)
    for number, offset in ((0, 19), (1, 24)):
        expected = {b'"%s"' % key.encode(): b'{"sum":%d}' % value for key, value in COUNTS[number].items()}
        found = read_families(home / f"tables/counts-{number}.db")["default"]
        assert found == dict(sorted((expected | {OFFSET: b"%d" % offset}).items()))
    stores = QueryableStores.of_directory(
        home, {"counts": StoreDefinition("faust.table", key=JsonSerde(), value=JsonSerde())}
    )
    counts = stores.store("counts", QueryableStoreTypes.key_value())
    assert counts.get("k7") == {"sum": 7}
    assert len(list(counts.all())) == 40
    both = SideBySideStores(spec).get(None, "0x226b3722", None)
    assert [(each.store_partition, each.verdict) for each in both.records] == [
        ("0/counts", "nowhere"),
        ("1/counts", "equal"),
    ]
    rollback(spec)
    assert read_families(home / "tables/counts-0.db")["default"][b'"k8"'] == b"8"


@pytest.mark.parametrize(
    ("path", "id"),
    [("shop-data/v1", "shop"), ("shop-data/v3", "shop-v3"), ("data/v1", None), ("shop-data/copy", None)],
)
def test_its_path_tells_the_id_as_faust_s_own_settings_do(path: str, id: str | None) -> None:
    assert FAUST.changelog.application_id(Path("/srv", path)) == id


def test_an_id_that_nothing_tells_is_asked_for(home: Path) -> None:
    moved = home.parents[1] / "elsewhere" / "v1"
    shutil.move(home.parent, moved.parent)
    unknown = spec_of(moved, changelog=BROKER, target={"store": "counts2"})
    with pytest.raises(SpecError, match="does not tell the id of its application") as asked:
        find_source(unknown)
    assert asked.value.hint == 'name it: application_id = "..."'
    assert '# application_id = "..."' in init_spec(moved, to="faust.table", output=None).text
    known = spec_of(moved, changelog={**BROKER, "application_id": "shop-v7"}, target={"store": "counts2"})
    assert application_of(known) == "shop-v7"
    source = find_source(known)
    assert [(each.topic, each.new_topic, each.number) for each in changelogs(known, source)] == [
        ("shop-v7-counts-changelog", "shop-v7-counts2-changelog", 0),
        ("shop-v7-counts-changelog", "shop-v7-counts2-changelog", 1),
    ]
    assert positions(known, source) == {"0/counts": 20, "1/counts": 25}


def test_where_its_changelogs_end_can_be_confirmed(home: Path) -> None:
    spec = spec_of(home, conversion={"allow": ["changelog"]})
    with pytest.raises(RefusedError, match="the files name position 20 of shop-counts-changelog-0, position 25"):
        run(spec)
    ends = {"shop-counts-changelog-0": 20, "shop-counts-changelog-1": 25}
    with pytest.raises(RefusedError, match="shop-counts-changelog-1 ends at 26, and 1/counts is at 25"):
        run(spec, changelog_ends={**ends, "shop-counts-changelog-1": 26})
    assert run(spec, changelog_ends=ends).verification.ok


_REFUSED: Mapping[str, dict[str, Any]] = {
    "a windowed table of Faust": {"window": timedelta(minutes=1)},
    "a table of Faust with a ttl": {"options": {"ttl": 3600}},
}


@pytest.mark.parametrize("kind", _REFUSED)
def test_kinds_that_cannot_be_converted_are_named(tmp_path: Path, kind: str) -> None:
    rows = {0: {"a": 1, "b": 2, "c": 3}}
    home = make_table(tmp_path / "shop-data", "counts", rows, offsets={0: 7}, key_type=str, **_REFUSED[kind])
    assert_refused(home, kind)


def test_pairs_of_numbers_are_no_windows(tmp_path: Path) -> None:
    rows = {0: {("a", (1.5, 2.5)): 1, ("b", (1.5, 3.5)): 2}}
    home = make_table(tmp_path / "shop-data", "counts", rows, offsets={0: 7})
    assert plan(spec_of(home)).verdict.exit_code == 0


def test_files_of_python_rocksdb_are_named(tmp_path: Path) -> None:
    home = shutil.copytree(FIXTURE.parent / "faust-python-rocksdb/v1", tmp_path / "shop-data/v1")
    assert_refused(home, "a table that python-rocksdb wrote")


def assert_refused(home: Path, kind: str) -> None:
    (store,) = inspect(home).stores
    assert store.unsupported is not None
    assert (store.unsupported.name, store.unsupported.is_certain) == (kind, True)
    with pytest.raises(RefusedError, match=f"is {kind}, which cannot be converted: .*") as refused:
        init_spec(home, to="faust.table", output=None)
    assert refused.value.hint
    checked = plan(spec_of(home))
    assert checked.verdict.exit_code != 0
    with pytest.raises(RefusedError, match=f"is {kind}, which cannot be converted"):
        run(spec_of(home))


def test_a_table_becomes_no_store_of_another_system(home: Path) -> None:
    target = home.parents[1] / "new"
    with pytest.raises(RefusedError, match="stores of Faust cannot move to or from another system"):
        run(spec_of(home, target={"format": KEY_VALUE, "path": str(target)}))
    assert run(spec_of(home, target={"format": RAW, "path": str(target)})).verification.ok


def test_values_that_are_not_json_are_rejects(home: Path) -> None:
    make_table(home.parent, "counts", {0: {"text": b"not JSON"}}, key_type=str, value_type=bytes)
    function = {"function": "tests.shared.conversions:in_object_decoded"}
    serdes = {"value": {"from": {"serde": "json"}, "to": {"serde": "json"}}}
    report = run(spec_of(home, conversion=function | serdes, run={"on_reject": "skip"}))
    assert (report.totals.rejected, report.totals.records_out) == (1, 40)
    assert "JSON" in rejects(spec_of(home, conversion=function | serdes)).rejects[0].reason
