"""State directories that the real Streamiz 1.8.2 left behind: what they hold, and what a migration makes of them."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from formats import get_format
from migrate import RefusedError, Spec, doctor, inspect, run
from migrate.cli.main import main
from migrate.systems.checkpoint_file import read_checkpoint
from tests.live.streamiz.adding import inputs, rows, with_count
from tests.live.streamiz.make_fixture import FIXTURE, NEWEST_TABLES, RECORDS, RETENTION_MS
from tests.live.streamiz.make_vectors import FORMATS
from tests.support import read_families

STOPS = 2
"""How often each application was started and stopped again, after the stop that followed its records."""


@pytest.fixture
def states(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE / "states.tar.xz") as packed:
        packed.extractall(tmp_path)
    return tmp_path


def spec_of(states: Path, kind: str, **sections: Any) -> Spec:  # noqa: ANN401
    """Its store goes to Kafka Streams."""
    kept = {"retention_ms": RETENTION_MS} if kind.endswith("win") else {}
    name = FORMATS[kind]
    return Spec(
        name=name,
        work_dir=states / "work",
        source={"format": f"streamiz.{name}", "path": states / "StateDir" / name, "store": "kv"} | kept,
        target={"format": f"kafka-streams.{name}", "path": states / "java" / name} | kept,
        **sections,
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_every_record_comes_to_kafka_streams(kind: str, states: Path) -> None:
    spec = spec_of(states, kind)
    run(spec)
    target, found = get_format(spec.target.format), []
    assert target.column_families is not None
    for options in (states / "java").rglob("CURRENT"):
        for key, value in read_families(options.parent)[target.column_families[0]].items():
            record = target.decode(key, value)
            assert record.value is not None
            window = [] if record.window is None else [str(record.window.start_ms)]
            stamp = record.timestamp_ms if kind == "ts" else -2
            found.append("\t".join([record.key.decode(), *window, f"{int.from_bytes(record.value)}\t-\t{stamp}"]))
    began = int((states / "began-at").read_text())
    assert sorted(found) == rows(inputs(RECORDS, begin_ms=began), kind)


def test_the_number_is_past_the_end_of_the_changelog(states: Path) -> None:
    spec = spec_of(states, "plain", conversion={"function": with_count, "allow": ("changelog",)})
    stated = [line for task in ("0-0", "0-1") for line in read_checkpoint(spec.source_path / task / ".checkpoint")]
    ends = {f"{topic}-{number}": offset - STOPS for topic, number, offset in stated}
    assert sum(ends.values()) == RECORDS
    with pytest.raises(RefusedError, match="only the broker knows"):
        run(spec)
    (check,) = (each for each in doctor(spec, changelog_ends=ends).checks if each.name == "source.clean")
    assert check.outcome == "warning"
    run(spec, changelog_ends=ends)
    new = [
        line for task in ("0_0", "0_1") for line in read_checkpoint(states / "java/key-value" / task / ".checkpoint")
    ]
    assert {f"{topic}-{number}": offset + 1 for topic, number, offset in new} == ends


def test_its_newest_tables_are_not_called_damaged(states: Path) -> None:
    app = states / "StateDir" / NEWEST_TABLES
    for database in inspect(app).databases:
        assert "has table format version 7" in (database.error or "")
        assert "SetFormatVersion(6)" in database.hint
    said = " ".join(CliRunner().invoke(main, ["inspect", str(app)]).stdout.split())
    assert said.count("damaged") == said.count("nothing is damaged") == 2
