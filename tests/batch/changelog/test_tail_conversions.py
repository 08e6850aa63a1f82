"""What a catch-up makes of records: their times, values of Avro, and the same on Spark."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from migrate import catch_up, load_spec, run, verify
from tests.batch.changelog.support import (
    NOW,
    TASKS,
    App,
    Record,
    applied,
    beside_a_function,
    entries_of,
    on_spark,
    stored,
    tail_of,
)
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, TIMESTAMPED


def test_records_get_the_times_of_the_changelog(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-times", tmp_path, broker, KEY_VALUE, count=60)
    sections = {"target": {"format": TIMESTAMPED, "store": "orders2"}}
    sections["changelog"] = {"bootstrap": broker.bootstrap, "timestamps": "changelog", "application": "stopped"}
    app = replace(app, sections=sections).make()
    run(app.spec)
    tail = tail_of(app, 0)
    app.write(app.topic, 0, tail)
    catch_up(app.spec)
    expected = applied(app.expected(0), tail)
    assert app.restored(0) == expected
    timestamped = replace(app, kind=TIMESTAMPED)
    assert stored(timestamped, 0) == entries_of(timestamped, expected)
    assert verify(app.spec).verification.ok


class AvroApp(App):
    """An application whose values are records of one number."""

    def old(self, number: int) -> dict[bytes, Record]:
        return {key: (b"\x04", at) for key, (_, at) in super().old(number).items()}

    def converted(self, records: Mapping[bytes, Record]) -> dict[bytes, Record]:
        """With the default of the field that the new schema adds."""
        return {key: (value + b"\x02x", at) for key, (value, at) in records.items() if value is not None}


def test_tails_of_avro_values_are_converted_to_the_new_schema(broker: Broker, tmp_path: Path) -> None:
    number = {"name": "n", "type": "int"}
    fields = {"v1": [number], "v2": [number, {"name": "s", "type": "string", "default": "x"}]}
    serdes = {}
    for side, version in (("from", "v1"), ("to", "v2")):
        schema = {"type": "record", "name": "R", "fields": fields[version]}
        (tmp_path / f"{version}.avsc").write_text(json.dumps(schema), encoding="utf-8")
        serdes[side] = {"serde": "avro", "frame": "none", "schema": f"{version}.avsc"}
    app = AvroApp("tail-avro", tmp_path, broker, count=60, sections={"conversion": {"value": serdes}}).make()
    run(app.spec)
    known = sorted(app.old(0))
    tail: dict[bytes, Record] = {known[3]: (b"\x06", NOW), known[4]: (None, NOW), b"new": (b"\x08", NOW)}
    app.write(app.topic, 0, tail)
    catch_up(app.spec)
    expected = app.converted(app.old(0) | tail)
    assert app.restored(0) == dict(sorted(expected.items()))
    assert stored(app, 0) == entries_of(app, expected)
    assert verify(app.spec).verification.ok


def test_spark_lays_tails_over_the_stores(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-spark", tmp_path, broker, count=60).make()
    file = beside_a_function(app)
    run(load_spec(file))
    expected = []
    for number in range(len(TASKS)):
        tail = tail_of(app, number)
        app.write(app.topic, number, tail)
        expected.append(applied(app.expected(number), tail))
    on_spark("catch_up", file)
    assert [app.restored(number) for number in range(len(TASKS))] == expected
    assert [stored(app, number) for number in range(len(TASKS))] == [entries_of(app, each) for each in expected]
