"""What a catch-up makes of records: their times, values of Avro, and the same on Spark."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from migrate import catch_up, load_spec, run, verify
from tests.batch.changelog.support import NOW, TASKS, App, Record, applied, entries_of, stored, tail_of
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
    code = (
        "from dataclasses import replace\n"
        "def convert(record):\n"
        "    return None if record.key.startswith(b'drop-') else replace(record, value=record.value + b'!')\n"
    )
    (tmp_path / "changed_tail.py").write_text(code, encoding="utf-8")
    (tmp_path / "spec.toml").write_text(
        f'name = "{app.name}"\nwork_dir = "work"\n'
        f'source = {{ format = "{TIMESTAMPED}", path = "{app.name}", store = "orders" }}\n'
        f'target = {{ format = "{TIMESTAMPED}", store = "orders2" }}\n'
        'conversion = { function = "changed_tail:convert", allow = ["drop"] }\n'
        f'changelog = {{ bootstrap = "{broker.bootstrap}", application = "stopped" }}\n',
        encoding="utf-8",
    )
    spec = load_spec(tmp_path / "spec.toml")
    run(spec)
    expected = []
    for number in range(len(TASKS)):
        tail = tail_of(app, number)
        app.write(app.topic, number, tail)
        expected.append(applied(app.expected(number), tail))
    code = "import sys; from migrate import load_spec, catch_up; catch_up(load_spec(sys.argv[1]), master='local[2]')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "spec.toml")], check=True, timeout=100)
    assert [app.restored(number) for number in range(len(TASKS))] == expected
    assert [stored(app, number) for number in range(len(TASKS))] == [entries_of(app, each) for each in expected]
