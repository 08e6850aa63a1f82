"""Values that wait in the buffer of suppress() are named before a new version meets them."""

import time
from dataclasses import replace

from confluent_kafka import Producer

from formats import StateRecord
from migrate import cutover, plan, run
from migrate.spec.spec import Spec
from tests.live.changelog.app import App, Program
from tests.live.changelog.model import make_input_topic

WINDOW = "kafka-streams.timestamped-window"
KEYS = 30


def _convert(record: StateRecord) -> StateRecord:
    return replace(record, value=record.value + b"!")


def test_the_buffer_of_suppress_is_named_by_the_plan_and_at_the_cut_over(old: Program) -> None:
    old = replace(old, kind="suppressed")
    _make_state(old)
    buffer = f"{old.application_id}-last-store-changelog holds {KEYS} records, and its store has no directory here"
    report = plan(_spec(old))
    (check,) = [each for each in report.checks if each.name == "changelog.other-topics"]
    assert (check.outcome, buffer in check.detail) == ("warning", True)
    assert report.verdict.go
    run(_spec(old))
    assert any(buffer in each for each in cutover(_spec(old)).warnings)


def _make_state(program: Program) -> None:
    make_input_topic(program.bootstrap, program.input)
    producer = Producer({"bootstrap.servers": program.bootstrap})
    for each in range(KEYS * 2):  # two of each key, in one window
        value, now = b"value %d" % each, time.time_ns() // 1_000_000 // 600_000 * 600_000
        producer.produce(topic=program.input, key=b"key-%d" % (each % KEYS), value=value, timestamp=now + each)
    assert producer.flush(30) == 0
    with App(program) as app:
        app.wait_caught_up()
        app.stop()


def _spec(program: Program) -> Spec:
    return Spec(
        name="suppressed",
        work_dir=program.state_dir.parent / "work",
        source={"format": WINDOW, "path": program.folder, "store": program.store},
        target={"format": WINDOW, "store": f"{program.store}-v2"},
        conversion={"function": _convert},
        changelog={"bootstrap": program.bootstrap},
    )
