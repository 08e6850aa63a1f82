"""Which way a changelog goes, and which topics it has: rules of the spec, and what the store's own files say."""

from pathlib import Path
from typing import Any

import pytest

from migrate.batch.changelog.store_changelogs import changelogs, positions
from migrate.batch.identity import spec_identity
from migrate.batch.preflight.conversion_checks import check_conversion
from migrate.batch.source.source import application_of, find_source
from migrate.batch.status.next_step import may_catch_up
from migrate.errors import ExitCode, RefusedError, SpecError
from migrate.spec.changelog_way import check_way, new_names, way_of
from migrate.spec.conversion import conversion_ref, load_conversion
from migrate.spec.sections import RunSection
from migrate.spec.spec import Spec
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_store, raises

BROKER = {"bootstrap": "broker:9092"}


def _spec(tmp_path: Path, changelog: dict[str, Any] | None = None, *, changes: bool = True, **target: Any) -> Spec:  # noqa: ANN401
    """A spec for two tasks of `orders`; `changes`: with a function, which the changelog cannot know."""
    return Spec(
        name="orders",
        work_dir=tmp_path / "work",
        source={"format": KEY_VALUE, "path": tmp_path / "state" / "orders-app", "store": "orders"},
        target={"format": TIMESTAMPED, **target},
        conversion={"function": lambda record: record} if changes else {},
        changelog=changelog,
    )


def _refusal(spec: Spec) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        check_way(spec, load_conversion(conversion_ref(spec)))
    assert caught.value.exit_code is ExitCode.REFUSED
    return caught.value


def _application(tmp_path: Path, lines: str = "", *, task: str = "0_1") -> None:
    task_directory = tmp_path / "state" / "orders-app" / task
    make_store(task_directory / "rocksdb" / "orders", {b"key": b"value"})
    count = len(lines.splitlines())
    if lines:
        (task_directory / ".checkpoint").write_text(f"0\n{count}\n{lines}", encoding="utf-8")


@pytest.mark.parametrize(
    "changelog, changes, target, way",
    [
        (None, True, {}, "none"),
        (BROKER, False, {}, "none"),
        (BROKER, False, {"store": "orders-v2"}, "new-topic"),
        ({**BROKER, "way": "new-topic"}, False, {"stores": {"orders": "orders-v2"}}, "new-topic"),
        (BROKER, True, {"store": "orders-v2"}, "new-topic"),
        ({**BROKER, "way": "new-topic"}, True, {"stores": ["orders-v2"]}, "new-topic"),
        ({**BROKER, "way": "append"}, True, {}, "append"),
    ],
)
def test_the_way_is_that_of_the_conversion(
    tmp_path: Path, changelog: dict[str, Any], changes: bool, target: dict[str, Any], way: str
) -> None:
    spec = _spec(tmp_path, changelog, changes=changes, **target)
    conversion = load_conversion(conversion_ref(spec))
    check_way(spec, conversion)
    assert way_of(spec, conversion) == way
    assert new_names(spec) == {"orders": "orders-v2" if target else "orders"}


@pytest.mark.parametrize(
    "changelog, target, mistake",
    [
        (None, {"store": "orders-v2"}, 'add two lines: [changelog], and below it bootstrap = "host:port"'),
        (None, {"stores": {"orders": "orders-v2"}}, 'it has no changelog: [conversion] allow = ["changelog"]'),
        (BROKER, {"stores": {"orders": "a", "refunds": "b"}}, "[target] stores, not [source], names 'refunds'"),
        (BROKER, {"stores": {"ordres": "b"}}, "names 'ordres': did you mean 'orders'?"),
        (BROKER, {"stores": {}}, "[target] stores has no new name for 'orders'"),
        (BROKER, {"store": "orders"}, "the old store stays, so the new one needs another name"),
        (BROKER, {"stores": ["a", "b"]}, "[target] names 2 and [source] 1 stores"),
        (BROKER, {"stores": ["a", "a"]}, "`stores` names a store twice"),
        (BROKER, {"store": "a", "stores": ["b"]}, "give `store` or `stores`, not both"),
        (BROKER, {"store": "orders/v2"}, "cannot be part of a topic's name"),
        ({**BROKER, "application_id": "my app"}, {}, "changelog.application_id: should be part of a topic's name"),
        ({**BROKER, "way": "append"}, {"store": "orders-v2"}, 'way = "append" keeps the old topic'),
    ],
)
def test_names_that_cannot_be_are_mistakes_of_the_spec(
    tmp_path: Path, changelog: dict[str, Any] | None, target: dict[str, Any], mistake: str
) -> None:
    caught = raises(SpecError, "", _spec, tmp_path, changelog, **target)
    assert mistake in caught.message


def test_a_changed_changelog_needs_a_new_name_or_append_and_both_are_named(tmp_path: Path) -> None:
    error = _refusal(_spec(tmp_path, BROKER))
    assert "nothing says where the new records go" in error.message
    assert "[target] store" in error.hint
    assert '[changelog] way = "append"' in error.hint


@pytest.mark.parametrize("way", ["append", "new-topic"])
def test_a_way_that_an_unchanged_changelog_does_not_need_is_refused(tmp_path: Path, way: str) -> None:
    error = _refusal(_spec(tmp_path, {**BROKER, "way": way}, changes=False))
    assert error.message.startswith(f'[changelog] way = "{way}": this conversion leaves the changelog as it is')
    assert "if the new code declares another name, name it in [target] store" in error.hint


def test_a_table_of_new_names_is_the_same_as_their_list(tmp_path: Path) -> None:
    def renaming(stores: object) -> Spec:
        source = {"format": KEY_VALUE, "path": tmp_path, "stores": ["b", "a"]}
        target = {"format": KEY_VALUE, "stores": stores}
        return Spec(name="orders", work_dir=tmp_path, source=source, target=target, changelog=BROKER)

    assert renaming({"a": "a2", "b": "b2"}) == renaming(["b2", "a2"])
    assert new_names(renaming({"a": "a2", "b": "b2"})) == {"a": "a2", "b": "b2"}


def test_what_has_no_changelog_or_no_way_back_is_refused(tmp_path: Path) -> None:
    assert f"a store of {RAW} has no changelog" in _refusal(_spec(tmp_path, BROKER, format=RAW)).message
    published = _spec(tmp_path, {**BROKER, "way": "append"}, path=tmp_path / "new")
    assert "`rollback`, which a store in [target] path does not have" in _refusal(published).message
    versioned = _spec(tmp_path, {**BROKER, "way": "append"}, format="kafka-streams.versioned")
    assert "does not go with a versioned store" in _refusal(versioned).message
    same = _spec(tmp_path, {**BROKER, "timestamps": "changelog"}, changes=False, format=KEY_VALUE)
    assert 'timestamps = "changelog" has no effect' in _refusal(same).message


def test_topics_are_those_that_the_store_itself_names(tmp_path: Path) -> None:
    _application(tmp_path, "prefix-orders-changelog 1 41\nprefix-other-changelog 1 7\n")
    _application(tmp_path, task="0_0")
    spec = _spec(tmp_path, BROKER, store="orders-v2")
    source = find_source(spec)
    assert [(each.store_partition, each.topic, each.new_topic, each.number) for each in changelogs(spec, source)] == [
        ("0_0/orders", "orders-app-orders-changelog", "orders-app-orders-v2-changelog", 0),
        ("0_1/orders", "prefix-orders-changelog", "prefix-orders-v2-changelog", 1),
    ]
    assert positions(spec, source) == {"0_0/orders": None, "0_1/orders": 42}
    assert application_of(spec) == "orders-app"
    other = _spec(tmp_path, {**BROKER, "application_id": "renamed"}, store="orders-v2")
    assert changelogs(other, source)[0].new_topic == "renamed-orders-v2-changelog"


@pytest.mark.parametrize(
    "lines, mistake",
    [
        ("orders-app-orders-changelog 0 41\n", "from partition 0 of orders-app-orders-changelog, and its task has"),
        ("a-orders-changelog 1 41\nb-orders-changelog 1 41\n", "states positions in two changelogs"),
    ],
)
def test_a_position_that_is_not_the_stores_own_is_refused(tmp_path: Path, lines: str, mistake: str) -> None:
    _application(tmp_path, lines)
    spec = _spec(tmp_path, BROKER, store="orders-v2")
    with pytest.raises(RefusedError) as caught:
        changelogs(spec, find_source(spec))
    assert mistake in caught.value.message
    assert caught.value.hint


def test_the_broker_is_no_part_of_the_identity_and_the_way_is(tmp_path: Path) -> None:
    def identity(**changelog: Any) -> dict[str, str]:  # noqa: ANN401
        named: dict[str, Any] = {} if changelog.get("way") == "append" else {"store": "orders-v2"}
        spec = _spec(tmp_path, {**BROKER, **changelog}, **named)
        return spec_identity(spec, conversion_ref(spec))

    mine = identity()
    assert "[changelog]" in mine
    assert "[changelog]" not in spec_identity(_spec(tmp_path), conversion_ref(_spec(tmp_path)))
    assert identity(bootstrap="other:1", config="client.properties", way="new-topic") == mine
    assert identity(application_id="orders-app") == mine
    for other in ({"way": "append"}, {"application_id": "renamed"}, {"timestamps": "changelog"}):
        assert identity(**other)["[changelog]"] != mine["[changelog]"]


def test_a_snapshot_may_be_converted_where_the_tail_is_caught_up_with(tmp_path: Path) -> None:
    def check(changelog: dict[str, Any] | None, **target: Any) -> Spec:  # noqa: ANN401
        spec = _spec(tmp_path, changelog, **target)
        spec = spec.model_copy(update={"run": RunSection(source="snapshot")})
        ref = conversion_ref(spec)
        check_conversion(spec, load_conversion(ref), ref)
        return spec

    assert "[changelog]" in raises(RefusedError, "a snapshot cannot be migrated", check, None).hint
    assert may_catch_up(check(BROKER, store="orders-v2"))
