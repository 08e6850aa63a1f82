"""A key in the old store, converted, and in the new store, at each stage of a migration."""

import struct
import threading
from pathlib import Path

import pytest

from formats import Window
from migrate import Spec, cutover, run
from migrate.errors import SpecError, StoreNotReadyError, UnknownStateStoreError
from migrate.queries.get_report import SideBySide
from migrate.queries.side_by_side import SideBySideStores
from tests.queries.open.test_migration import KilledError, kill_at
from tests.shared.totals import totals_spec
from tests.support import UNKNOWN_TIMESTAMP, open_store


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return totals_spec(tmp_path)


def _get(spec: Spec, key: str) -> SideBySide:
    (found,) = (each for each in SideBySideStores(spec).get("orders", key).records if each.verdict != "nowhere")
    return found


def test_a_store_that_is_missing_in_the_middle_of_a_switch_is_waited_for(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As between the two renames of a file system that cannot exchange directories."""
    monkeypatch.setattr("migrate.queries.side_by_side._MOVING_SECONDS", 0.3)
    run(spec)
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.positioned", 1))
    place, aside = spec.source_path / "0_1/rocksdb/orders", spec.home / "aside"
    place.rename(aside)
    with pytest.raises(StoreNotReadyError):
        SideBySideStores(spec).get("orders", "key-007")
    threading.Timer(0.1, lambda: aside.rename(place)).start()
    assert _get(spec, "key-007").verdict == "equal"


def test_what_the_new_application_has_written_is_named(spec: Spec) -> None:
    run(spec)
    cutover(spec)
    live = spec.source_path / "0_1/rocksdb/orders"
    with open_store(live) as database:
        column = database.get_column_family("keyValueWithTimestamp")
        column[b"key-007"] = UNKNOWN_TIMESTAMP + b'{"price":7,"count":2,"total":15}'
        column[b"key-008b"] = struct.pack(">q", 5) + b'{"price":1}'
        del column[b"key-009"]
        del column
    different, extra, missing = (_get(spec, key) for key in ("key-007", "key-008b", "key-009"))
    assert (different.verdict, different.differences) == ("different", ("value.total",))
    assert (extra.verdict, extra.old, extra.converted) == ("extra", None, None)
    assert extra.new is not None
    assert (extra.new.timestamp_ms, extra.new.value) == (5, {"price": 1})
    assert (missing.verdict, missing.new) == ("missing", None)


def test_the_first_keys_of_a_range_are_shown_in_their_order(spec: Spec) -> None:
    run(spec)
    report = SideBySideStores(spec).first("orders", "key-050", 3)
    assert [each.old.key for each in report.records if each.old] == ["key-050", "key-052", "key-054"]
    assert not report.is_complete
    every = SideBySideStores(spec).first("orders", None, 1000)
    assert every.is_complete
    assert len(every.records) == 102
    assert {each.verdict for each in every.records} == {"equal", "rejected", "dropped"}


def test_mistakes_say_what_there_is(spec: Spec) -> None:
    stores = SideBySideStores(spec)
    with pytest.raises(UnknownStateStoreError, match="no store 'order'") as caught:
        stores.get("order", "key")
    assert "orders" in caught.value.hint
    with pytest.raises(SpecError, match="has no windows"):
        stores.get("orders", "key", Window(0))
    with pytest.raises(SpecError, match="not base64"):
        stores.get("orders", "%", encoding="base64")
