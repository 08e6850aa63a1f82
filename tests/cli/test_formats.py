"""`formats` lists what a spec can name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from formats import FORMATS, Conversion, get_format
from migrate import RefusedError, known_formats
from migrate.functions import conversion_ref
from migrate.preflight import check_conversion
from migrate.spec import parse_spec
from tests.bad_input.commands import CommandServer
from tests.support import KEY_VALUE, RAW, TIMESTAMPED

PAIRS = [(source.id, target.id) for source in FORMATS for target in FORMATS]


def test_every_format_and_every_conversion_is_listed() -> None:
    report = known_formats()
    assert [(known.id, each.target) for known in report.formats for each in known.conversions] == PAIRS


@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_what_must_be_allowed_is_what_a_run_asks_for(pair: tuple[str, str], tmp_path: Path) -> None:
    source, target = pair
    known = next(known for known in known_formats().formats if known.id == source)
    wanted = next(each for each in known.conversions if each.target == target).must_be_allowed
    conversion = Conversion(get_format(source), get_format(target))
    for number in range(len(wanted) + 1):
        spec = parse_spec(
            {
                "name": "test",
                "work_dir": "work",
                "source": {"format": source, "path": "old"},
                "target": {"format": target},
                "conversion": {"allow": list(wanted[:number])},
            },
            base_dir=tmp_path,
        )
        if number == len(wanted):
            check_conversion(spec, conversion, conversion_ref(spec))
        else:
            with pytest.raises(RefusedError):
                check_conversion(spec, conversion, conversion_ref(spec))


def test_text_and_json_tell_the_same(commands: CommandServer) -> None:
    text = commands.run(["formats"])
    report = json.loads(commands.run(["formats", "--json"]).out)
    assert (text.code, [known["id"] for known in report["formats"]]) == (0, [known.id for known in FORMATS])
    for fact in (
        f"{KEY_VALUE}\n  Kafka Streams key-value store: key -> value\n",
        "  column families: default; carried as they are: offsets\n",
        f'to {KEY_VALUE}: compiled, loses timestamp, must be allowed: "loss:timestamp"',
        f'to {TIMESTAMPED}: compiled, loses nothing, must be allowed: "changelog"',
        f"{RAW}\n",
        "column families: any",
        "carries: key, value, timestamp",
    ):
        assert fact in text.out
