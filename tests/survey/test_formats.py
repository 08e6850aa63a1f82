"""`formats` lists what a spec can name."""

import json
from pathlib import Path

import pytest

from formats import FORMATS, Conversion, conversion_problem, get_format
from formats.serdes.registry import SERDES
from migrate import RefusedError, known_formats
from migrate.batch.preflight.conversion_checks import check_conversion
from migrate.show.text.inspect_text import groups_of
from migrate.spec.conversion import conversion_ref
from migrate.spec.spec import Spec, parse_spec
from migrate.survey.known_formats import ConversionReport
from migrate.systems import SYSTEMS
from tests.shared.commands import CommandServer
from tests.support import KEY_VALUE, RAW, TIMESTAMPED

PAIRS = [(source.id, target.id) for source in FORMATS for target in FORMATS]


POSSIBLE = [pair for pair in PAIRS if conversion_problem(get_format(pair[0]), get_format(pair[1])) is None]


def listed(source: str, target: str) -> ConversionReport:
    known = next(known for known in known_formats().formats if known.id == source)
    return next(each for each in known.conversions if each.target == target)


def spec_of(source: str, target: str, folder: Path, allow: list[str]) -> Spec:
    windowed = {"store": "s", "retention_ms": 7_200_000} if get_format(source).is_segmented else {"store": "s"}
    if source == RAW:
        windowed = {}
    retention = {"retention_ms": 7_200_000} if "retention_ms" in windowed else {}
    content = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": source, "path": "old", **windowed},
        "target": {"format": target, "path": "new", **retention},
        "conversion": {"allow": allow, "default_timestamp_ms": 1_700_000_000_000},
    }
    return parse_spec(content, base_dir=folder)


def conversion_of(source: str, target: str) -> Conversion:
    return Conversion(get_format(source), get_format(target), default_timestamp_ms=1_700_000_000_000)


def test_every_format_and_every_conversion_is_listed() -> None:
    report = known_formats()
    assert [(known.id, each.target) for known in report.formats for each in known.conversions] == PAIRS
    assert [serde.name for serde in report.serdes] == [known.name for known in SERDES]
    assert len(report.unsupported) == sum(len(system.unsupported) for system in SYSTEMS)


@pytest.mark.parametrize("pair", POSSIBLE, ids=" to ".join)
def test_what_must_be_allowed_is_what_a_run_asks_for(pair: tuple[str, str], tmp_path: Path) -> None:
    wanted = listed(*pair).must_be_allowed
    conversion = conversion_of(*pair)
    for number in range(len(wanted) + 1):
        spec = spec_of(*pair, tmp_path, list(wanted[:number]))
        if number == len(wanted):
            check_conversion(spec, conversion, conversion_ref(spec))
        else:
            with pytest.raises(RefusedError):
                check_conversion(spec, conversion, conversion_ref(spec))


@pytest.mark.parametrize("pair", sorted({*PAIRS} - {*POSSIBLE}), ids=" to ".join)
def test_an_impossible_conversion_has_the_reason_that_a_run_gives(pair: tuple[str, str], tmp_path: Path) -> None:
    report = listed(*pair)
    spec = spec_of(*pair, tmp_path, [])
    with pytest.raises(RefusedError) as refused:
        check_conversion(spec, conversion_of(*pair), conversion_ref(spec))
    assert refused.value.message == report.problem
    assert all(near in refused.value.hint for near in report.nearest)
    assert {(pair[0], near) for near in report.nearest} <= {*POSSIBLE}
    assert (report.losses, report.must_be_allowed, report.program) == ((), (), None)


@pytest.mark.parametrize("pair", POSSIBLE, ids=" to ".join)
def test_what_is_kept_and_lost_is_all_that_a_record_has(pair: tuple[str, str]) -> None:
    report = listed(*pair)
    lost = {name.removeprefix("loss:") for name in report.losses}
    assert {*report.keeps} | lost == get_format(pair[0]).carries
    assert not {*report.keeps} & lost
    assert ("changelog" in report.must_be_allowed) == (report.changelog == "no longer matches")


def test_formats_of_one_group_become_each_other_and_no_others() -> None:
    groups = groups_of(known_formats().formats)
    together = {(a.id, b.id) for group in groups for a in group for b in group}
    assert together == {*POSSIBLE}


def test_text_and_json_agree(commands: CommandServer) -> None:
    text = commands.run(["formats"], before="import os; os.environ['COLUMNS'] = '80'")
    report = json.loads(commands.run(["formats", "--json"]).out)
    assert (text.code, [known["id"] for known in report["formats"]]) == (0, [known.id for known in FORMATS])
    assert max(map(len, text.out.splitlines())) <= 80
    in_one_line = " ".join(text.out.split())
    for fact in (
        f"{KEY_VALUE} Kafka Streams key-value store: key -> value column family default; metadata column family",
        'the old store\'s timestamps have no place in the new one: [conversion] allow must have "loss:timestamp"',
        'which a section [changelog] migrates: [conversion] allow must have "changelog"',
        "Kafka Streams window store with headers: key, window -> headers, timestamp, value; since 4.3",
        f"{TIMESTAMPED} Kafka Streams timestamped key-value store: key -> timestamp, value column family",
        "keyValueWithTimestamp (pre-upgrade: default)",
        f"{RAW} any RocksDB directory",
        "column family any",
        "record: key, window, value, timestamp, headers",
        "No conversion between these groups",
        "kafka-streams.window can be converted to kafka-streams.timestamped-window",
        "The list store of an outer or left join",
        *(serde["summary"] for serde in report["serdes"]),
    ):
        assert fact in in_one_line
