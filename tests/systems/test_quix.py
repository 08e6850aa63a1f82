"""Directories of Quix Streams, written by the real Quix Streams."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from formats.serdes.json_text import JsonSerde
from migrate import (
    QueryableStores,
    QueryableStoreTypes,
    RefusedError,
    SideBySideStores,
    Spec,
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
from migrate.model.store_partition import StorePartition
from migrate.show.output import Output
from migrate.show.text.inspect_text import show_inspect
from migrate.spec.spec import parse_spec
from migrate.systems.quix_streams import QUIX
from tests.live.quix.stores import NOW_MS, OTHER_KINDS, TTL, make_store
from tests.support import KEY_VALUE, RAW, Tables, open_store, raises, read_families

METADATA, OFFSET = "__metadata__", b"__changelog_offset__"
TOTALS = {number: {b"k%d" % n: {"total": n} for n in range(number, 40, 2)} for number in (0, 1)}
OFFSETS = {0: 19, 1: 24}
EXPIRES_MS = NOW_MS + 3_600_000


def rename(record: StateRecord) -> StateRecord:
    return replace(record, key=record.key.replace(b"total", b"sum"))


def lengthen(record: StateRecord) -> StateRecord:
    return replace(record, expires_ms=None)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory of a group with a store of two partitions."""
    return make_store(tmp_path / "state" / "shop", TOTALS, offsets=OFFSETS)


@pytest.fixture
def expiring(tmp_path: Path) -> Path:
    """The same with a TTL; one value is kept for ever."""
    content = {**TOTALS, 0: {**TOTALS[0], b"k0": {"total": 0, "kept": 1}}}
    return make_store(tmp_path / "state" / "shop", content, offsets=OFFSETS, ttl=TTL)


def spec_of(home: Path, *, format: str = "quix.key-value", **sections: Any) -> Spec:  # noqa: ANN401 - of TOML
    content: dict[str, Any] = {
        "name": "totals",
        "work_dir": "work",
        "source": {"format": format, "path": str(home), "store": "default"},
        "target": {"format": format},
        "conversion": {"function": "tests.shared.conversions:in_object", "allow": ["changelog", "unclean-source"]},
    }
    merged = {name: {**content.get(name, {}), **section} for name, section in sections.items()}
    return parse_spec(content | merged, base_dir=home.parents[1])


def test_its_stores_are_found_and_their_offsets(home: Path) -> None:
    make_store(home, {0: {b"a": {"seen": 1}}}, stream="a--b")
    found = QUIX.layout.find(home, ["default"], is_segmented=False)
    assert [(each.id, str(each.path)) for each in found] == [
        ("a--b/0/default", "default/a--b/0"),
        ("orders/0/default", "default/orders/0"),
        ("orders/1/default", "default/orders/1"),
    ]
    lines = [QUIX.offsets.within("shop", each, each.directories(home).values()).lines for each in found]
    topic = "changelog__shop--orders--default"
    assert lines == [(), ((topic, 0, 19),), ((topic, 1, 24),)]
    assert [str(each.relative_to(home)) for each in QUIX.layout.lock_files(home, [])] == [
        "default/a--b/0/LOCK",
        "default/orders/0/LOCK",
        "default/orders/1/LOCK",
    ]
    with_changelog = spec_of(home, changelog={"bootstrap": "localhost:9"}, source={"leave_out": ["a--b/0"]})
    source = find_source(with_changelog)
    assert application_of(with_changelog) == "shop"
    assert [(each.topic, each.new_topic, each.number) for each in changelogs(with_changelog, source)] == [
        (topic, topic, 0),
        (topic, topic, 1),
    ]
    assert positions(with_changelog, source) == {"orders/0/default": 20, "orders/1/default": 25}


def test_the_changelog_of_a_topic_of_its_own_has_another_name() -> None:
    stream = "repartition__shop--orders--by-buyer"
    partition = StorePartition(id="x", store="default", task=f"{stream}/3", path=Path())
    assert QUIX.changelog.topic("shop", partition) == "changelog__shop--repartition.orders.by-buyer--default"


@pytest.mark.parametrize(
    ("path", "said", "hint"),
    [
        ("state", "holds no store", "<state_dir>/<consumer group>"),
        ("state/shops", "does not exist", "<state_dir>/<consumer group>"),
        ("state/shop", "no store 'defaults' in", "did you mean 'default'?"),
    ],
)
def test_what_is_not_there_is_said(home: Path, path: str, said: str, hint: str) -> None:
    with pytest.raises(RefusedError) as refused:
        QUIX.layout.find(home.parents[1] / path, ["defaults"], is_segmented=False)
    assert said in refused.value.message
    assert hint in refused.value.hint


def test_init_writes_a_spec_that_can_be_run_cut_over_and_taken_back(home: Path) -> None:
    report = init_spec(home, to="quix.key-value", output=home.parents[1] / "spec.toml")
    assert (report.store, report.source_format, report.records) == ("default", "quix.key-value", 40)
    spec = spec_of(home)
    assert plan(spec).verdict.exit_code == 0
    assert run(spec).verification.ok
    cutover(spec)
    for number, offset in OFFSETS.items():
        found = read_families(home / f"default/orders/{number}")
        assert found["default"] == {
            b'%s|"total"' % key: b'{"sum":%d}' % state["total"] for key, state in sorted(TOTALS[number].items())
        }
        assert found[METADATA] == {OFFSET: offset.to_bytes(8, "big")}
    stores = QueryableStores.of_directory(home, {"default": StoreDefinition("quix.key-value", value=JsonSerde())})
    assert stores.store("default", QueryableStoreTypes.key_value()).get(b'k7|"total"') == {"sum": 7}
    both = SideBySideStores(spec).get(None, 'k7|"total"', None)
    assert [(each.store_partition, each.verdict) for each in both.records] == [
        ("orders/0/default", "nowhere"),
        ("orders/1/default", "equal"),
    ]
    rollback(spec)
    assert read_families(home / "default/orders/0")["default"][b'k8|"total"'] == b"8"


def test_what_expires_keeps_its_time_and_what_is_kept_beside_it(expiring: Path) -> None:
    before = read_families(expiring / "default/orders/0")
    spec = spec_of(expiring, format="quix.ttl-key-value")
    assert run(spec).verification.ok
    both, _ = SideBySideStores(spec).get(None, 'k8|"total"', None).records
    assert both.new is not None
    assert (both.verdict, both.new.expires_ms) == ("equal", EXPIRES_MS)
    cutover(spec)
    found = read_families(expiring / "default/orders/0")
    assert {family: entries for family, entries in found.items() if family != "default"} == {
        family: entries for family, entries in before.items() if family != "default"
    }
    assert len(found["__ttl_index__"]) == 20
    assert found["default"][b'k0|"kept"'] == b'\xff\xff\xff\xff\xff\xff\xff\xff{"sum":1}'
    assert found["default"][b'k8|"total"'] == EXPIRES_MS.to_bytes(8, "big") + b'{"sum":8}'


@pytest.mark.parametrize(
    ("function", "said"), [("rename", "the key of a value that may expire"), ("lengthen", "when the value expires")]
)
def test_what_its_index_names_cannot_be_changed(function: str, said: str, expiring: Path) -> None:
    allow = ["changelog", "unclean-source", "key-change"]
    conversion = {"function": f"tests.systems.test_quix:{function}", "allow": allow}
    raises(RefusedError, said, run, spec_of(expiring, format="quix.ttl-key-value", conversion=conversion))


def test_inspect_counts_the_names_in_the_state(home: Path) -> None:
    content = {0: {b"a|b": {"total": 1, ("by", 1): 2, 7: 3, "x|y": 4, b"bytes": 5}}}
    make_store(home, content)
    (store,) = inspect(home).stores
    assert store.kind == "key-value"
    assert store.hint == "its records do not look like quix.ttl-key-value"
    assert store.names == {"total": 41, '["by", 1]': 1, "7": 1, "x|y": 1}
    text = "\n".join(show_inspect(inspect(home), Output()))
    assert "names of a sample: total (41)" in text


def test_keys_of_other_systems_are_not_searched_for_names(home: Path, tmp_path: Path) -> None:
    app = tmp_path / "others/app"
    app.joinpath("0_0/rocksdb").mkdir(parents=True)
    (home / "default/orders/0").rename(app / "0_0/rocksdb/totals")
    (store,) = inspect(app).stores
    assert (store.system, store.names) == ("kafka-streams", {})
    assert [family.names for database in inspect(app).databases for family in database.families] == [{}, {}]


def test_a_store_with_a_ttl_and_one_without_are_told_apart(expiring: Path) -> None:
    (store,) = inspect(expiring).stores
    assert store.formats == ("quix.ttl-key-value",)
    with pytest.raises(RefusedError, match=r"is not quix\.key-value: it has a column family '__ttl_index__'"):
        run(spec_of(expiring))


def test_values_without_a_time_are_no_expiring_ones(tmp_path: Path) -> None:
    home = make_store(tmp_path / "state" / "shop", {0: {b"k": {"total": "longer than a time"}}})
    assert plan(spec_of(home, format="quix.ttl-key-value")).verdict.exit_code != 0
    with pytest.raises(RefusedError, match=r"quix\.ttl-key-value"):
        run(spec_of(home, format="quix.ttl-key-value"))


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_other_kinds_of_stores_are_named_and_refused(name: str, home: Path) -> None:
    OTHER_KINDS[name](home)
    store = next(each for each in inspect(home).stores if each.name == name)
    assert store.unsupported is not None
    assert store.unsupported.is_certain
    with pytest.raises(RefusedError, match=r"of Quix Streams.*, which cannot be converted: ") as refused:
        run(spec_of(home, source={"store": name}))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("family", "key"),
    [
        ("__ttl_backfill_stamped__", b'k0|"total"'),
        ("__ttl_backfill_pending__", b'k0|"total"'),
        (METADATA, b"__ttl_backfill_in_progress__"),
        (METADATA, b"__ttl_adopt_pending__"),
        ("__ttl_index__", None),
    ],
)
def test_a_ttl_that_is_half_switched_on_is_refused(family: str, key: bytes | None, home: Path) -> None:
    with open_store(home / "default/orders/0") as database:
        if family != METADATA:
            database.create_column_family(family, Tables().options())
        if key is not None:
            database.get_column_family(family)[key] = b"\x01"
    assert_half_stamped(home)


@pytest.mark.parametrize("flag", [(METADATA, b"__ttl_enabled__"), ("__ttl_system__", b"__ttl_migration_done__")])
def test_so_is_one_without_its_own_word_that_it_is_done(flag: tuple[str, bytes], expiring: Path) -> None:
    with open_store(expiring / "default/orders/0") as database:
        database.create_column_family("__ttl_backfill_stamped__", Tables().options())
        database.get_column_family("__ttl_backfill_stamped__")[b'k0|"total"'] = b""
    assert inspect(expiring).stores[0].unsupported is None
    with open_store(expiring / "default/orders/0") as database:
        del database.get_column_family(flag[0])[flag[1]]
    assert_half_stamped(expiring)


def assert_half_stamped(home: Path) -> None:
    (store,) = inspect(home).stores
    assert store.unsupported is not None
    assert store.unsupported.name == "a store of Quix Streams whose TTL is switched on half-way"
    for format in ("quix.key-value", "quix.ttl-key-value"):
        with pytest.raises(RefusedError, match="whose TTL is switched on half-way, which cannot be converted"):
            run(spec_of(home, format=format))


def test_it_has_no_other_name_and_moves_to_no_other_system(home: Path) -> None:
    raises(RefusedError, "stores of Quix Streams cannot get another name", run, spec_of(home, target={"store": "new"}))
    target = home.parents[1] / "new/shop"
    elsewhere = spec_of(home, target={"format": KEY_VALUE, "path": str(target)})
    raises(RefusedError, "stores of Quix Streams cannot move to or from another system", run, elsewhere)
    assert run(spec_of(home, target={"format": RAW, "path": str(target)})).verification.ok


def test_the_way_of_its_changelog_is_to_append(home: Path) -> None:
    text = init_spec(home, to="quix.key-value", output=None).text
    assert '\n# way = "append"  # where keys or values change' in text
    assert "[target] store" not in text
    undecided = spec_of(home, changelog={"bootstrap": "localhost:9"})
    error = raises(RefusedError, "nothing says where the new records go", run, undecided)
    assert error.hint.startswith('set [changelog] way = "append": the store keeps its name')
    elsewhere = {"path": str(home.parents[1] / "new/shop")}
    published = spec_of(home, changelog={"bootstrap": "localhost:9", "way": "append"}, target=elsewhere)
    assert raises(RefusedError, "", run, published).hint == "leave [target] path out and use `cutover`"


def test_a_new_directory_has_the_name_of_the_group(home: Path) -> None:
    allowed = {"allow": ["changelog", "unclean-source"]}
    elsewhere = spec_of(home, target={"path": str(home.parents[1] / "new")}, conversion=allowed)
    raises(RefusedError, "would read changelog__new--orders--default", run, elsewhere)
    spec = spec_of(home, target={"path": str(home.parents[1] / "new/shop")}, conversion=allowed)
    assert run(spec).published is not None


def test_values_that_are_not_json_are_rejects(home: Path) -> None:
    make_store(home, {0: {b"text": {"total": b"not JSON"}}})
    function = {"function": "tests.shared.conversions:in_object_decoded"}
    serdes = {"value": {"from": {"serde": "json"}, "to": {"serde": "json"}}}
    report = run(spec_of(home, conversion=function | serdes, run={"on_reject": "skip"}))
    assert (report.totals.rejected, report.totals.records_out) == (1, 40)
    assert "JSON" in rejects(spec_of(home, conversion=function | serdes)).rejects[0].reason
