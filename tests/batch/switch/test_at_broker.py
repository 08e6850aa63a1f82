"""Switches of stores with changelogs at a real broker: what is asked, recorded, set back, appended and deleted."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from migrate import RefusedError, abandon, catch_up, cutover, finalize, replay, rollback, run
from migrate.batch.changelog import topics
from migrate.batch.changelog.write_topics import transactional_id
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.ledger.table import Ledger
from migrate.batch.switch.abandon import removed_by_abandon, removed_by_finalize
from migrate.errors import ChangelogFailedError, ExitCode
from migrate.kafka import claims
from migrate.kafka import cluster as client
from migrate.model.changelogs import TopicPart
from migrate.model.events import BROKER_EVENTS, SWITCH_EVENTS, Event
from migrate.model.ledger_row import Step
from migrate.systems.checkpoint_file import read_checkpoint
from tests.batch.changelog.support import NOW, TASKS, WINDOW
from tests.batch.switch.support import StopAt, StoppedError
from tests.batch.switch.switched import BEGUN, LATER, METADATA, Switched
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, TIMESTAMPED, raises, read_ledger

EVENTS_OF = {
    "cutover": [
        "started",
        "asked",
        "checked",
        "intended",
        "positioned",
        "exchanged",
        "old-set-aside",
        "marked",
        "done",
    ],
    "rollback": ["started", "intended", "positioned", "offsets-set-back", "undone", "exchanged", "done"],
}
"""In their order."""
_numbers = count()
_APPENDING = """
from dataclasses import replace
def convert(record):
    return None if record.key.startswith(b"drop-") else replace(record, value=record.value + b"!")
"""


Make = Callable[..., Switched]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Make:
    return lambda **more: Switched(f"switched-{next(_numbers)}", tmp_path, broker, **more)


def _old_restored(app: Switched) -> bool:
    """Whether the changelog that records were appended to gives the old values again."""
    return all(app.restored(number) == app.old(number) for number in range(2))


def _killed_everywhere(verb: Callable[..., object], app: Switched) -> None:
    """Each attempt gets one event further than the one before."""
    before = app.old_state()
    for event in EVENTS_OF[verb.__name__]:
        if (event, app.way) != ("undone", "new-topic"):
            raises(StoppedError, "", verb, app.spec, on_event=StopAt(f"{verb.__name__}.{event}"))
            app.check_lines()
            assert app.way == "append" or verb is rollback or app.old_state() == before, event
    verb(app.spec)


def test_every_event_is_one_to_be_killed_at() -> None:
    known = {event for event in (*SWITCH_EVENTS, *BROKER_EVENTS) if not event.endswith(".committed")}
    for verb, events in EVENTS_OF.items():
        assert {f"{verb}.{event}" for event in events} == {each for each in known if each.startswith(f"{verb}.")}


@pytest.mark.parametrize("way", ["new-topic", "append"])
def test_there_and_back_killed_at_every_event(way: str, make: Make) -> None:
    app = make(way=way).begin()
    before = [app.lines(number) for number in range(2)]
    _killed_everywhere(cutover, app)
    for number in range(2):
        assert app.new_store(number) == {key: app._entry(*record) for key, record in app.expected(number).items()}
        kept = before[number] if way == "new-topic" else {}
        assert app.lines(number) == {**kept, app.new_topic: app.last_offset(number)}
    app.go_on()
    _killed_everywhere(rollback, app)
    report = rollback(app.spec)
    assert {(each.topic, each.offset, each.records) for each in report.set_back if each.records} == {
        (app.input, BEGUN, LATER - BEGUN)
    }
    assert report.topics == (app.topic,)
    assert report.stores == tuple(map(app.place, range(2)))
    assert app.is_old()
    assert app.passes_over_repartitioned()
    if way == "new-topic":
        assert [app.lines(number) for number in range(2)] == before
        assert app.new_topic in removed_by_abandon(app.spec)
        assert abandon(app.spec).removed_topics == (app.new_topic,)
        assert (app.has_topic(app.new_topic), app.has_topic(app.topic)) == (False, True)
    else:
        assert _old_restored(app)
        assert [app.lines(number) for number in range(2)] == [{app.topic: app.last_offset(each)} for each in range(2)]
        assert abandon(app.spec).undone_topics == ()


def _claim(app: Switched, last_offset: int) -> None:
    """Let the ledger say that the broker has confirmed that offset in the second partition."""
    rows = read_ledger(app.spec.home)
    receipt = next(each for each in ChangelogStanding(rows).produced if each.store_partition == "0_1/orders")
    ledger = Ledger(app.spec.home, rows[-1].migration_id, "0123456789ab", command="run")
    detail = receipt.model_copy(update={"last_offset": last_offset}).model_dump(mode="json")
    ledger.commit(ledger.row(Step.PRODUCED, store_partition=receipt.store_partition, detail=detail))


def test_input_under_the_old_stores_name_keeps_a_cutover_from_beginning(make: Make) -> None:
    app = make().begin()
    waiting = f"{app.name}-orders-repartition"
    with app.cluster as cluster:
        cluster.create_topic(waiting, partitions=1, replication=1, settings={})
    app.write(waiting, 0, {b"k": (b"", NOW)})
    raises(RefusedError, f"{waiting}, partition 0, has input that the application has not read", cutover, app.spec)


def test_what_the_broker_says_keeps_a_cutover_from_beginning(make: Make) -> None:
    app = make().begin()
    before = [app.lines(number) for number in range(2)]
    consumer = Consumer({"bootstrap.servers": app.broker.bootstrap, "group.id": app.name, "enable.auto.commit": False})
    consumer.subscribe([app.input])
    consumer.poll(10)
    raises(RefusedError, f"group {app.name} has 1 member", cutover, app.spec)
    consumer.close()
    producer = _left_open(app, f"{app.name}-dead")
    raises(RefusedError, f"a transaction is open in {app.topic}, partition 1", cutover, app.spec)
    producer.abort_transaction()
    _claim(app, last_offset=10**6)
    raises(RefusedError, "the changelogs of the new stores were not read back", cutover, app.spec)
    with pytest.raises(RefusedError, match=f"{app.new_topic}, partition 1, ends at offset .*and 1000000 was confirmed"):
        cutover(app.spec, unverified=True)
    app.write(app.new_topic, 0, {b"k": (b"v", NOW)})
    raises(RefusedError, f"{app.new_topic}, partition 0, has records after offset", cutover, app.spec, unverified=True)
    app.write(app.topic, 0, {b"k": (b"v", NOW)})
    with pytest.raises(RefusedError, match=f"{app.topic}, partition 0, has records from offset") as error:
        cutover(app.spec, unverified=True)
    assert "stateferry catch-up SPEC" in error.value.hint
    assert [app.lines(number) for number in range(2)] == before
    assert not app.place(0, "orders2").exists()


def test_a_switch_that_lost_its_broker_is_half_done_and_finished_by_a_rerun(
    make: Make, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make().begin()
    for module in (client, claims):
        monkeypatch.setattr(module, "REQUEST_SECONDS", 1)
    monkeypatch.setattr(client, "REACH_SECONDS", 1)
    _without_broker(broker, app, cutover, "cutover.old-set-aside", "the cut-over is half done, so start no version")
    assert cutover(app.spec).state == "cut over"
    assert app.all_restored()
    _without_broker(broker, app, rollback, "rollback.positioned", "the rollback is half done, so start no version")
    assert rollback(app.spec).state == "rolled back"
    assert app.is_old()
    run(app.spec)
    cutover(app.spec)
    delete = partial(finalize, delete_topic=True)
    _without_broker(broker, app, delete, "finalize.intended", "the old stores are removed, their changelogs are not")
    assert delete(app.spec).removed_topics == (app.topic,)


def _without_broker(broker: Broker, app: Switched, verb: Callable[..., object], event: str, said: str) -> None:
    """From that event on the broker answers nothing, and the command fails with these words."""

    def listener(reached: Event) -> None:
        if reached.name == event:
            broker.pause()

    try:
        caught = raises(ChangelogFailedError, said, verb, app.spec, on_event=listener)
    finally:
        broker.resume()
    assert caught.exit_code is ExitCode.FAILED
    assert "that the broker runs" in caught.hint
    assert caught.hint.endswith("a rerun resumes")


def test_offsets_that_are_gone_stay_where_they_are_if_asked(make: Make) -> None:
    app = make().begin()
    cutover(app.spec)
    app.go_on()
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    admin.delete_records([TopicPartition(app.input, 1, BEGUN + 1)])
    error = raises(RefusedError, rf"partition 1 of {app.input} begins at offset {BEGUN + 1} now", rollback, app.spec)
    assert "--discard-new-writes" in error.hint
    assert app.place(0, "orders2").exists()
    assert rollback(app.spec, discard_new_writes=True).set_back == ()
    assert app.group() == {(LATER, METADATA)}
    assert not app.place(0, "orders2").exists()
    run(app.spec)
    assert cutover(app.spec).state == "cut over"
    assert app.all_restored()


def test_a_published_store_has_its_topic_and_the_old_one_is_deleted_by_name_and_id(make: Make) -> None:
    app = make()
    target = {"format": TIMESTAMPED, "store": "orders2", "path": f"new/{app.name}"}
    app = replace(app, sections={"target": target}).begin()
    for number, task in enumerate(TASKS):
        lines = read_checkpoint(app.base / "new" / app.name / task / ".checkpoint")
        assert lines == [(app.new_topic, number, app.last_offset(number))]
        assert [folder.name for folder in (app.base / "new" / app.name / task / "rocksdb").iterdir()] == ["orders2"]
    assert app.topic in removed_by_finalize(app.spec, delete_topic=True)
    assert finalize(app.spec, delete_topic=True).removed_topics == (app.topic,)
    assert (app.has_topic(app.new_topic), app.has_topic(app.topic)) == (True, False)
    with app.cluster as cluster:
        cluster.create_topic(app.topic, partitions=2, replication=1, settings={})
    raises(RefusedError, "recreated since", finalize, app.spec, delete_topic=True)
    assert finalize(app.spec).removed_topics == ()
    assert app.has_topic(app.topic)


def test_the_old_topic_of_segments_is_deleted_where_that_is_asked_for(make: Make) -> None:
    app = make(kind=WINDOW).begin()
    cutover(app.spec)
    rollback(app.spec)
    raises(RefusedError, "the changelogs of the new stores are not written", cutover, app.spec)
    run(app.spec)
    cutover(app.spec)
    for number, task in enumerate(TASKS):
        old, new = (app.base / app.name / task / name for name in ("orders", "orders2"))
        assert {each.name.replace("orders", "orders2") for each in old.iterdir()} == {
            each.name for each in new.iterdir()
        }
        assert app.lines(number)[app.new_topic] == app.last_offset(number)
    assert finalize(app.spec, delete_topic=True).removed_topics == (app.topic,)
    assert (app.has_topic(app.new_topic), app.has_topic(app.topic)) == (True, False)
    assert finalize(app.spec, delete_topic=True).removed_topics == ()


def test_tails_are_cut_over_and_left_again(make: Make) -> None:
    app = make().begin()
    first, *_ = app.expected(0)
    for number in range(2):
        app.write(app.topic, number, {first: (b"later", NOW), b"new": (b"value", NOW)})
    catch_up(app.spec)
    (app.base / app.name / "kafka-streams-process-metadata").write_text('{"processId": "p"}', encoding="ascii")
    dead = _left_open(app, f"{app.name}-p-1")
    raises(RefusedError, "a transaction is open", cutover, app.spec)
    cutover(app.spec, fence=True)
    for number in range(2):
        tail = {first: (b"later!", NOW), b"new": (b"value!", NOW)}
        assert app.restored(number) == dict(sorted({**app.expected(number), **tail}.items()))
        assert app.new_store(number) == {key: app._entry(*record) for key, record in app.restored(number).items()}
        assert app.lines(number)[app.new_topic] == app.last_offset(number)
    app.go_on()
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    admin.delete_consumer_groups([app.name])[app.name].result(60)
    rollback(app.spec)
    assert app.is_old()
    assert abandon(app.spec).removed_topics == (app.new_topic,)
    del dead


def _left_open(app: Switched, transactional_id: str) -> Producer:
    """A producer that has written a record, and commits nothing."""
    identity = {"bootstrap.servers": app.broker.bootstrap, "transactional.id": transactional_id}
    producer = Producer({**identity, "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic=app.topic, partition=1, key=b"k", value=b"v")
    producer.flush()
    return producer


def test_new_writes_are_discarded_from_a_changelog_too(make: Make) -> None:
    app = make(way="append", kind=KEY_VALUE).begin()
    cutover(app.spec)
    app.go_on()
    assert rollback(app.spec, discard_new_writes=True).set_back == ()
    assert app.group() == {(LATER, METADATA)}
    assert _old_restored(app)


def test_what_a_killed_rollback_left_open_does_not_hold_up_the_next_one(make: Make) -> None:
    app = make(way="append").begin()
    cutover(app.spec)
    migration_id = read_ledger(app.spec.home)[-1].migration_id
    ident = transactional_id(migration_id, TopicPart(store_partition="0_1/orders", database="undo"))
    killed = _left_open(app, ident)
    assert rollback(app.spec).state == "rolled back"
    assert _old_restored(app)
    del killed


def test_a_half_written_changelog_is_given_up_with_its_old_values_and_times(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = {"target": {"format": TIMESTAMPED}, "conversion": {"function": "appending:convert", "allow": ["drop"]}}
    app = make(way="append", kind=KEY_VALUE, sections=sections)
    module = app.base / "appending.py"
    module.write_text(_APPENDING, encoding="utf-8")
    raises(StoppedError, "", app.begin, StopAt("changelog.committed"))
    assert {at for value, at in app.restored(0).values() if value is not None and value.endswith(b"!")} == {-1}
    with monkeypatch.context() as patch:
        patch.setattr(topics, "_still_serves", lambda *_: False)
        raises(StoppedError, "", run, app.spec, on_event=StopAt("changelog.intended"))
    assert app.topic in removed_by_abandon(app.spec)
    module.write_text(_APPENDING.replace("!", "?"), encoding="utf-8")
    error = raises(RefusedError, "the changelogs have records of the former function", replay, app.spec)
    assert "stateferry abandon SPEC" in error.hint
    raises(StoppedError, "", abandon, app.spec, on_event=StopAt("abandon.topics-removed"))
    assert _old_restored(app)
    app.write(app.topic, 0, {b"later": (b"of the old application", NOW)})
    assert abandon(app.spec).undone_topics == ()
    assert app.restored(0) == {**app.old(0), b"later": (b"of the old application", NOW)}
    assert list(app.spec.home.parent.iterdir()) == []
