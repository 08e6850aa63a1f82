"""A store without a changelog gets another name on disk: in place and back, and in a new state directory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from migrate import Spec, catch_up, cutover, plan, rollback, run
from migrate.errors import RefusedError
from tests.shared.windowed import OFFSETS, checkpoint, make_segments, offsets, window_key
from tests.support import (
    KEY_VALUE,
    make_families,
    make_store,
    numbered,
    open_store,
    raises,
    read_families,
    read_family,
    tree_state,
)

OWN, OTHER = "app-orders-changelog 1 299", "app-other-changelog 1 7"


def _application(tmp_path: Path) -> Path:
    """An application with another store."""
    application = tmp_path / "state" / "app"
    make_store(application / "0_1/rocksdb/orders", numbered(300))
    (application / "0_1/orders.position").write_text("{}", encoding="utf-8")
    make_store(application / "0_1/rocksdb/other", numbered(3))
    (application / "0_1/.checkpoint").write_text(checkpoint(OWN, OTHER), encoding="ascii")
    return application


def _renaming(tmp_path: Path, application: Path, kind: str = KEY_VALUE, **target: Any) -> Spec:  # noqa: ANN401
    return Spec(
        name="test",
        work_dir=tmp_path / "work",
        source={"format": kind, "path": application, "store": "orders"},
        target={"format": kind, "store": "orders-v2", **target},
        conversion={"allow": ["changelog"]},
        base_dir=tmp_path,
    )


def test_it_takes_a_place_of_its_own_and_leaves_it_again(tmp_path: Path) -> None:
    application = _application(tmp_path)
    spec, before = _renaming(tmp_path, application), tree_state(application)
    assert plan(spec).verdict.go
    assert "right where the application disables logging" in run(spec).changelog
    refused = raises(RefusedError, "has no section", catch_up, spec)
    assert "and the store its name, the application replays" in refused.hint
    cutover(spec)
    assert read_family(application / "0_1/rocksdb/orders-v2") == numbered(300)
    assert (application / "0_1/.checkpoint").read_text(encoding="ascii") == checkpoint(OWN, OTHER)
    assert (application / "0_1/orders-v2.position").read_text(encoding="utf-8") == "{}"
    rollback(spec)
    assert tree_state(application).keys() == before.keys()
    assert read_family(application / "0_1/rocksdb/orders") == numbered(300)


def test_it_has_the_new_name_in_a_new_directory(tmp_path: Path) -> None:
    new = tmp_path / "new" / "app"
    run(_renaming(tmp_path, _application(tmp_path), path=new))
    assert sorted(each.name for each in (new / "0_1/rocksdb").iterdir()) == ["orders-v2", "other"]
    assert read_family(new / "0_1/rocksdb/orders-v2") == numbered(300)
    assert (new / "0_1/.checkpoint").read_text(encoding="ascii") == checkpoint(OTHER)


def test_positions_inside_the_old_store_are_not_those_of_the_new_one(tmp_path: Path) -> None:
    """As Kafka Streams 4.3 keeps them."""
    application = tmp_path / "state" / "app"
    own = offsets(299, topic="app-orders-changelog")
    make_families(application / "0_0/rocksdb/orders", {"default": numbered(300), OFFSETS: own})
    spec = _renaming(tmp_path, application)
    run(spec)
    cutover(spec)
    assert read_families(application / "0_0/rocksdb/orders-v2") == {"default": numbered(300)}


def _longer(record: StateRecord) -> StateRecord:
    return replace(record, value=record.value + b"!")


def test_an_old_store_that_was_opened_since_asks_for_no_end_of_its_changelog(tmp_path: Path) -> None:
    """Which is not replayed into the new one."""
    application = _application(tmp_path)
    spec = _renaming(tmp_path, application)
    spec = spec.model_copy(update={"conversion": spec.conversion.model_copy(update={"function": _longer})})
    run(spec)
    with open_store(application / "0_1/rocksdb/orders"):
        pass
    assert cutover(spec).state == "cut over"


def test_segments_bear_the_new_name(tmp_path: Path) -> None:
    application = tmp_path / "state" / "app"
    rows = {window_key(b"key-%d" % each, each * 60_000): b"value" for each in range(200)}
    make_segments(application / "0_0/orders", rows, 3_600_000)
    spec = _renaming(tmp_path, application, "kafka-streams.window")
    run(spec)
    cutover(spec)
    segments = sorted((application / "0_0/orders-v2").iterdir())
    assert [each.name.partition(".")[0] for each in segments] == ["orders-v2"] * 4
    assert {key: value for each in segments for key, value in read_family(each).items()} == rows


@pytest.mark.parametrize("target", [{}, {"path": "new/app"}])
def test_a_name_that_another_store_has_is_refused_before_anything_is_made(
    tmp_path: Path, target: dict[str, Any]
) -> None:
    application = _application(tmp_path)
    spec = _renaming(tmp_path, application, KEY_VALUE, store="other", **target)
    assert "other is there already, where the new store goes" in plan(spec).verdict.sentence
    raises(RefusedError, "other is there already", run, spec)
    assert not (tmp_path / "work").exists()


def test_what_is_written_meanwhile_would_be_lost(tmp_path: Path) -> None:
    spec = _renaming(tmp_path, _application(tmp_path))
    late = spec.model_copy(update={"run": spec.run.model_copy(update={"source": "snapshot"})})
    assert "a snapshot cannot be migrated" in plan(late).verdict.sentence
