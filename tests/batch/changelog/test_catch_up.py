"""What an application writes after its snapshot, applied to the new stores and written to their changelogs."""

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from deltalake import DeltaTable

from migrate import RefusedError, VerificationError, catch_up, cutover, rejects, replay, run, status, verify
from migrate.batch.changelog import tails
from migrate.batch.ledger.table import Ledger
from migrate.batch.steps import assemble
from migrate.errors import CorruptionError, DroppedError, FencedError, RejectedError
from migrate.model.events import TAIL_EVENTS, Event
from tests.batch.changelog.support import NOW, TASKS, WINDOW, App, applied, entries_of, killed, stored, tail_of
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.shared.windowed import window_key
from tests.support import KEY_VALUE, TIMESTAMPED, flip_byte, raises

HOUR = 3_600_000
RETENTION = {"retention_ms": 12 * HOUR, "segment_ms": HOUR}
BEGINNING, END = TAIL_EVENTS[:3], TAIL_EVENTS[3:]
KILLS = (*BEGINNING, "assemble.started", "assemble.ingested", "assemble.committed", "verify.committed", *END)


def _windowed(app: App) -> App:
    """The application with the retention of its windowed store in the spec."""
    source = {"format": WINDOW, "path": app.name, "store": "orders", **RETENTION}
    return replace(app, sections={"source": source, "target": {"format": WINDOW, "store": "orders2", **RETENTION}})


@pytest.mark.parametrize("kind", [TIMESTAMPED, KEY_VALUE])
def test_tails_are_laid_over_the_stores_and_their_changelogs(kind: str, broker: Broker, tmp_path: Path) -> None:
    app = App(f"tails-{kind.rpartition('.')[2]}", tmp_path, broker, kind).make()
    run(app.spec)
    expected = [app.expected(number) for number in range(len(TASKS))]
    for salt in (b"", b"-again"):
        for number in range(len(TASKS)):
            tail = tail_of(app, number, salt=salt)
            first = next(iter(tail))
            app.write(app.topic, number, {first: (b"an older one", NOW)})
            app.write(app.topic, number, tail)
            expected[number] = applied(expected[number], tail)
        report = catch_up(app.spec)
        assert [each.records for each in report.tails] == [len(tail_of(app, 0)) + 1] * 2
        for number in range(len(TASKS)):
            assert stored(app, number) == entries_of(app, expected[number])
            assert app.restored(number) == expected[number]
    assert catch_up(app.spec).tails == ()
    assert verify(app.spec, mode="full").verification.ok
    assert verify(app.spec, mode="digest").verification.ok
    assert run(app.spec).state == "verified"
    assert len(list((app.spec.home / "new").glob("*/*/orders"))) == len(TASKS)
    raises(RefusedError, "catch-up", replay, app.spec)


def test_a_catch_up_killed_anywhere_is_finished_by_the_next_one(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-killed", tmp_path, broker, count=60).make()
    run(app.spec)
    expected = []
    for number in range(len(TASKS)):
        tail = tail_of(app, number)
        app.write(app.topic, number, tail)
        expected.append(applied(app.expected(number), tail))
    before = app.old_state()
    for event in KILLS:
        killed("catch_up", event, app)
        assert app.old_state() == before, event
    seen: list[str] = []
    catch_up(app.spec, on_event=lambda event: seen.append(event.name))
    assert "tail.committed" not in seen, "what was recorded is not read again"
    for number in range(len(TASKS)):
        assert stored(app, number) == entries_of(app, expected[number])
        assert app.restored(number) == expected[number]
    home = app.spec.home
    assert len(list((home / "new").glob("*/*/orders"))) == len(TASKS)
    assert len(list((home / "changelog").glob("overlays-*/*/orders"))) == len(TASKS)
    assert len(list((home / "changelog").glob("*/orders/tail-*/*"))) == len(TASKS)


def damaged_after_its_run(app: App) -> App:
    """A table of its new stores is, and there is something to catch up with."""
    run(app.make().spec)
    file = max((app.spec.home / "new").rglob("*.sst"), key=lambda each: each.stat().st_size)
    flip_byte(file, file.stat().st_size // 2, 0x10)
    app.write(app.topic, 0, {b"key-00000-0": (b"new", NOW)})
    return app


def test_a_table_that_was_damaged_before_a_catch_up_is_not_vouched_for_by_it(broker: Broker, tmp_path: Path) -> None:
    """It compares what the tails have changed, and no other record again."""
    app = damaged_after_its_run(App("tail-damaged", tmp_path, broker, count=2000))
    catch_up(app.spec)
    raises(RefusedError, "not as it was verified", cutover, app.spec)


def test_nor_is_it_where_that_one_ended_before_it_compared(broker: Broker, tmp_path: Path) -> None:
    app = damaged_after_its_run(App("tail-damaged-stopped", tmp_path, broker, count=2000))
    raises(StoppedError, "", catch_up, app.spec, on_event=StopAt("assemble.committed"))
    raises(CorruptionError, "", catch_up, app.spec)


def test_a_windowed_store_gets_new_segments_and_loses_expired_ones(broker: Broker, tmp_path: Path) -> None:
    app = _windowed(App("tail-window", tmp_path, broker, WINDOW, count=200)).make()
    run(app.spec)
    for number in range(len(TASKS)):
        late = {window_key(b"late", NOW - 40 * HOUR): (b"expired", NOW), **tail_of(app, number)}
        far = {window_key(b"far", NOW + 10 * HOUR): (b"new", NOW + 1)}
        app.write(app.topic, number, late | far)
    report = catch_up(app.spec)
    assert all(each.expired for each in report.tails)
    oldest = (NOW + 10 * HOUR - RETENTION["retention_ms"]) // HOUR * HOUR
    for number in range(len(TASKS)):
        tail = tail_of(app, number) | {window_key(b"far", NOW + 10 * HOUR): (b"new", NOW + 1)}
        live = applied(app.expected(number), tail)
        live = {key: each for key, each in live.items() if int.from_bytes(key[-12:-4], "big") >= oldest}
        assert stored(app, number) == entries_of(app, live)
        assert {key: each for key, each in app.restored(number).items() if key in live} == live
    assert verify(app.spec, mode="full").verification.ok
    assert verify(app.spec, mode="digest").verification.ok


def test_a_tail_that_may_lack_tombstones_is_laid_over_only_by_name(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("tail-old", tmp_path, broker, count=20).make()
    run(app.spec)
    app.write(app.topic, 0, {b"key-00001-0": (b"x", NOW)})
    monkeypatch.setattr(tails, "_DELETE_RETENTION_MS", 0)
    raises(RefusedError, "tombstones", catch_up, app.spec)
    function = app.spec.conversion.function
    allowed = replace(app, sections={"conversion": {"function": function, "allow": ["drop", "lost-tombstones"]}})
    assert len(catch_up(allowed.spec).tails) == 1


def test_changes_that_did_not_arrive_are_found(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("tail-lost", tmp_path, broker, count=20).make()
    run(app.spec)
    app.write(app.topic, 0, {b"key-00001-0": (None, NOW)})
    with monkeypatch.context() as broken:
        broken.setattr(assemble, "write_changes", lambda *_: {})
        raises(VerificationError, "extra", catch_up, app.spec)
    raises(RefusedError, "", catch_up, app.spec)
    assert run(app.spec).state == "verified"
    assert b"key-00001-0" not in stored(app, 0)
    catch_up(app.spec)
    assert b"key-00001-0" not in app.restored(0)


def test_what_the_function_drops_of_tails_counts_against_the_bound_too(broker: Broker, tmp_path: Path) -> None:
    def bounded(most: int) -> App:
        conversion = {"function": "tests.batch.changelog.support:convert"}
        return replace(app, sections={"conversion": conversion, "run": {"max_dropped": most}})

    app = App("tail-dropped", tmp_path, broker, count=20).make()
    assert run(bounded(6).spec).totals.dropped == 6
    for number in range(len(TASKS)):
        app.write(app.topic, number, {b"drop-late": (b"x", NOW), b"key-00001-%d" % number: (b"y", NOW)})
    with pytest.raises(DroppedError, match=r"drops \(it returns None\): 8, .* max_dropped allows 7"):
        catch_up(bounded(7).spec)
    assert status(bounded(7).spec).totals.dropped == 6
    report = catch_up(bounded(8).spec)
    assert [(each.keys, each.dropped, each.rejected) for each in report.tails] == [(2, 1, 0)] * 2
    assert status(bounded(8).spec).totals.dropped == 8
    (concern,) = report.concerns
    assert (concern.kind, concern.accepted) == ("dropped", "[run] max_dropped = 8")


def _rejecting(app: App, **run_section: object) -> App:
    conversion = {"function": "tests.batch.changelog.support:convert_some", "allow": ["drop"]}
    return replace(app, sections={"conversion": conversion, "run": {"chunk_size": "8 KiB", **run_section}})


def test_records_of_tails_that_cannot_be_converted_hold_a_cut_over_back(broker: Broker, tmp_path: Path) -> None:
    app = _rejecting(App("tail-rejects", tmp_path, broker, count=30).make(), on_reject="dead-letter", max_rejects=2)
    run(app.spec)
    for number in range(len(TASKS)):
        app.write(app.topic, number, {b"key-%05d-%d" % (each, number): (b"bad", NOW) for each in range(2)})
    raises(RejectedError, "converted: 4, max_rejects allows 2", catch_up, app.spec)
    app = _rejecting(app, on_reject="dead-letter")
    report = catch_up(app.spec)
    assert [each.kind for each in report.concerns if not each.accepted] == ["rejects"]
    assert "replay" not in report.next_step
    found = rejects(app.spec)
    assert (found.rejected, found.rejects[0].records, found.rejects[0].place != "") == (4, 4, True)
    assert found.dead_letters is not None
    assert DeltaTable(str(found.dead_letters)).to_pyarrow_table().num_rows == 4
    assert status(app.spec).totals.rejected == 4
    assert run(app.spec).totals.rejected == 4
    assert DeltaTable(str(found.dead_letters)).to_pyarrow_table().num_rows == 4
    raises(RejectedError, "4 records", cutover, app.spec)
    assert cutover(app.spec, accept_rejects=4).state == "cut over"


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_damaged_tail_is_made_again(broker: Broker, tmp_path: Path, *, is_removed: bool) -> None:
    app = App(f"tail-damaged-{is_removed:d}", tmp_path, broker, count=60).make()
    run(app.spec)
    expected = app.expected(0)
    for salt in (b"", b"-2"):
        tail = tail_of(app, 0, salt=salt)
        app.write(app.topic, 0, tail)
        expected = applied(expected, tail)
        catch_up(app.spec)
    file, other = sorted((app.spec.home / "changelog").glob("0_0/orders/tail-*/*.sst"))
    file.unlink()
    if not is_removed:
        file.write_bytes(other.read_bytes())  # RocksDB itself finds nothing wrong with it
    app.write(app.topic, 0, {b"key-00001-0": (b"last", NOW)})
    report = catch_up(app.spec)
    assert "was damaged or removed" in report.warnings[0]
    expected = applied(expected, {b"key-00001-0": (b"last", NOW)})
    assert stored(app, 0) == entries_of(app, expected)
    assert app.restored(0) == expected
    assert verify(app.spec).verification.ok
    assert cutover(app.spec).state == "cut over"


def test_a_lost_tail_that_the_old_changelog_has_no_more_is_refused(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-gone", tmp_path, broker, count=20).make()
    run(app.spec)
    for _ in range(2):
        last = app.write(app.topic, 0, {b"key-00001-0": (b"x", NOW)})
        if not (found := list((app.spec.home / "changelog").glob("*/orders/tail-*/*.sst"))):
            catch_up(app.spec)
    found[0].unlink()
    assert last is not None
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    policy = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, app.topic, incremental_configs=[policy])
    for changed in admin.incremental_alter_configs([topic]).values():
        changed.result()
    for future in admin.delete_records([TopicPartition(app.topic, 0, last)]).values():
        future.result()
    raises(RefusedError, "begins at offset", catch_up, app.spec)


def test_a_store_that_is_behind_its_changelog_catches_up(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-behind", tmp_path, broker, count=60).make()
    tails = [tail_of(app, number) for number in range(len(TASKS))]
    for number, tail in enumerate(tails):
        app.write(app.topic, number, tail)
    run(app.spec)
    raises(RefusedError, "which the new store lacks", cutover, app.spec)
    catch_up(app.spec)
    for number, tail in enumerate(tails):
        expected = applied(app.expected(number), tail)
        assert stored(app, number) == entries_of(app, expected)
        assert app.restored(number) == expected
    assert cutover(app.spec).state == "cut over"


def test_what_a_killed_catch_up_has_written_is_read_back(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("tail-unread", tmp_path, broker, count=20).make()
    run(app.spec)
    app.write(app.topic, 0, {b"key-00001-0": (b"x", NOW)})
    with monkeypatch.context() as patch:
        patch.setattr(tails, "_read_back", lambda *_: None)
        catch_up(app.spec)
    app.write(app.new_topic, 0, {b"key-00001-0": (b"of another process", NOW)})
    app.write(app.topic, 0, {b"key-00002-0": (b"y", NOW)})
    raises(VerificationError, "1 differing", catch_up, app.spec)
    raises(VerificationError, "1 differing", catch_up, app.spec)


def test_a_catch_up_writes_nothing_more_once_another_host_has_taken_over(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-fenced", tmp_path, broker, count=20).make()
    run(app.spec)
    tail = {b"key-00001-0": (b"x", NOW)}
    app.write(app.topic, 0, tail)
    before, seen = app.last_offset(0), list[str]()

    def take_over(event: Event) -> None:
        seen.append(event.name)
        if event.name == "verify.committed":
            Ledger(app.spec.home, str(status(app.spec).migration_id), "another")

    with pytest.raises(FencedError, match="has taken over"):
        catch_up(app.spec, on_event=take_over)
    assert "verify.committed" in seen
    assert app.last_offset(0) == before
    catch_up(app.spec)
    assert app.restored(0) == applied(app.expected(0), tail)
