"""The application of the proofs is what they take it for: what it holds and restores, before anything is migrated."""

import shutil
import time
from pathlib import Path

import pytest

from tests.broker.broker import Broker
from tests.live.changelog.app import App, Program
from tests.live.changelog.model import Rows, first_difference, make_input_topic, random_inputs, rows_after, send

KINDS = [
    ("4.0.1", False, "timestamped-key-value"),
    ("4.0.1", True, "timestamped-window"),
    ("4.3.1", False, "headers-key-value"),
    ("4.3.1", True, "key-value"),
]


@pytest.mark.parametrize(("version", "exactly_once", "kind"), KINDS)
def test_it_keeps_its_state_and_rebuilds_it_from_its_changelog(
    broker: Broker, tmp_path: Path, version: str, exactly_once: bool, kind: str
) -> None:
    application = f"app-{version}-{kind}"
    program = Program(broker.bootstrap, application, tmp_path, kind, version=version, exactly_once=exactly_once)
    make_input_topic(broker.bootstrap, program.input)
    inputs = random_inputs(2000, 500, seed=1, now_ms=time.time_ns() // 1_000_000)
    send(broker.bootstrap, program.input, inputs)
    assert _run(program) == (0, 2500, rows_after(kind, inputs))
    assert _run(program) == (0, 0, rows_after(kind, inputs))
    shutil.rmtree(program.folder)
    assert _run(program) == (2500, 0, rows_after(kind, inputs))


def test_values_of_a_schema_that_it_does_not_know_end_it(broker: Broker, tmp_path: Path) -> None:
    program = Program(broker.bootstrap, "app-unknown", tmp_path)
    make_input_topic(broker.bootstrap, program.input)
    inputs = random_inputs(10, 0, seed=1, now_ms=time.time_ns() // 1_000_000)
    send(broker.bootstrap, program.input, inputs)
    _run(program)
    send(broker.bootstrap, program.input, inputs)
    with App(program.next_version(store=program.store)) as app:
        assert "a value of the unknown schema 1" in app.wait_failed()


def test_a_difference_is_named() -> None:
    inputs = random_inputs(10, 0, seed=1, now_ms=1_000_000)
    expected = rows_after("timestamped-key-value", inputs)
    found = rows_after("timestamped-key-value", [*inputs, inputs[3]])
    assert first_difference(expected, expected) is None
    assert inputs[3].key in str(first_difference(found, expected))


def _run(program: Program) -> tuple[int, int, Rows]:
    """(records restored, inputs processed, what it holds)."""
    with App(program) as app:
        app.wait_caught_up()
        found = app.restored, app.processed, app.dump()
        app.stop()
    return found
