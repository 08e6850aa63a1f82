"""`init` for windows, sessions, histories and headers: the spec, errors with options, refusals."""

import struct
import tomllib
from pathlib import Path

import pytest

from migrate import RefusedError, SpecError, load_spec, plan
from migrate.spec.spec import parse_spec
from migrate.survey.init_spec import InitReport, init_spec
from tests.dry_run.segmented import FAMILY, HOUR, NOON, hours, make_segments, sessions
from tests.support import make_families, make_store, numbered

WINDOW = "kafka-streams.window"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application with windows in two tasks, and a versioned store."""
    app = make_segments(tmp_path / "visits-app", "visits", hours())
    latest = {struct.pack(">q", -1) + key: struct.pack(">q", NOON) + value for key, value in numbered(30).items()}
    make_store(app / "0_0/rocksdb/prices", latest)
    return app


def written(app: Path, store: str, to: str, source_format: str | None = None) -> InitReport:
    return init_spec(app, to=to, store=store, source_format=source_format, output=app.parent / "migration.toml")


def test_the_target_distinguishes_windows_from_sessions(app: Path) -> None:
    report = written(app, "visits", "kafka-streams.timestamped-window")
    assert (report.source_format, report.must_be_allowed) == (WINDOW, ())
    assert plan(load_spec(app.parent / "migration.toml")).verdict.exit_code == 0


def test_the_lines_that_change_the_retention_stand_there_as_comments(app: Path) -> None:
    text = written(app, "visits", "kafka-streams.headers-window").text
    assert text.count("\n# retention_ms = ") == 2
    assert '# version = "4.3"  # of the system that will open the new store: it has this since 4.3' in text
    changed = text.replace("# retention_ms = 86400000", f"retention_ms = {2 * HOUR}")
    changed = changed.replace("# retention_ms = 172800000", f"retention_ms = {6 * HOUR}")
    spec = parse_spec(tomllib.loads(changed), base_dir=app.parent)
    assert (spec.source.retention_ms, spec.target.retention_ms) == (2 * HOUR, 6 * HOUR)
    assert plan(spec).verdict.exit_code == 0


def test_the_example_of_serdes_is_one_that_a_spec_takes(app: Path) -> None:
    text = written(app, "visits", "kafka-streams.timestamped-window").text
    lines = text.splitlines()
    begin = lines.index("# [conversion.value]")
    changed = "\n".join(line.removeprefix("# ") if begin <= at <= begin + 2 else line for at, line in enumerate(lines))
    section = parse_spec(tomllib.loads(changed), base_dir=app.parent).conversion.value
    assert section is not None
    assert (section.source.serde, section.target.id) == ("avro", 2)
    assert '# in [conversion]: allow = ["loss:fields"]' in lines


@pytest.mark.parametrize(
    ("family", "source", "target", "losses"),
    [
        ("keyValueWithTimestampAndHeaders", "headers-window", "window", ("loss:headers", "loss:timestamp")),
        ("sessionKeyValueWithHeaders", "headers-session", "session", ("loss:headers",)),
        (FAMILY, "timestamped-window", "window", ("loss:timestamp",)),
    ],
)
def test_losses_stand_there_with_their_meaning(
    app: Path, family: str, source: str, target: str, losses: tuple[str, ...]
) -> None:
    make_segments(app, "other", {NOON: {family: {}}})
    report = written(app, "other", f"kafka-streams.{target}")
    assert (report.source_format, report.must_be_allowed) == (f"kafka-streams.{source}", losses)
    for loss in losses:
        what = loss.removeprefix("loss:").removesuffix("s") + "s"
        assert f"#   {loss}: the old store's {what} have no place in the new one" in report.text


def test_history_that_goes_is_named(app: Path) -> None:
    report = written(app, "prices", "kafka-streams.timestamped-key-value", "kafka-streams.versioned")
    assert report.must_be_allowed == ("loss:history",)
    assert "#   loss:history: the latest value of each key stays" in report.text


def test_the_spec_names_the_timestamp_that_a_versioned_store_needs(app: Path) -> None:
    make_store(app / "0_0/rocksdb/plain", numbered(30))
    report = written(app, "plain", "kafka-streams.versioned")
    assert report.source_format == "kafka-streams.key-value"
    assert "\n# default_timestamp_ms = 1767225600000\n" in report.text
    assert plan(load_spec(app.parent / "migration.toml")).verdict.exit_code == 6
    changed = report.text.replace("# default_timestamp_ms", "default_timestamp_ms")
    assert plan(parse_spec(tomllib.loads(changed), base_dir=app.parent)).verdict.exit_code == 0


def test_an_ambiguous_format_is_refused_with_a_hint_from_the_records(app: Path) -> None:
    with pytest.raises(SpecError) as asked:
        written(app, "prices", "kafka-streams.timestamped-key-value")
    assert "fit more than one format: kafka-streams.key-value, kafka-streams.versioned" in asked.value.message
    assert asked.value.hint.endswith("(its records look like kafka-streams.versioned)")


@pytest.mark.parametrize(
    ("store", "families", "to", "said"),
    [
        ("visits", {}, "kafka-streams.key-value", "there is no rule to turn one into the other"),
        ("closed", {"windowKeyValueWithHeaders": {}}, "kafka-streams.headers-window", "emits when a window closes"),
    ],
)
def test_what_cannot_be_converted_is_refused_at_once(
    app: Path, store: str, families: dict[str, dict[bytes, bytes]], to: str, said: str
) -> None:
    if families:
        make_segments(app, store, {NOON: families})
    with pytest.raises(RefusedError, match=said):
        written(app, store, to, WINDOW if store == "visits" else None)
    assert not (app.parent / "migration.toml").exists()


def test_kafka_streams_own_stores_are_not_offered_to_go_with_another(app: Path) -> None:
    make_segments(app, "calls", {NOON: {"default": sessions(NOON)}})
    for name in ("plain", "more", "clicks-outer-shared-join-store"):
        make_families(app / "0_0/rocksdb" / name, {"default": numbered(30)})
    text = written(app, "plain", "kafka-streams.timestamped-key-value").text
    assert 'stores = ["plain", "more"]' in text
