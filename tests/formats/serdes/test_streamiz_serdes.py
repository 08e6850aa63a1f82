"""The bytes that Streamiz' own serdes made, read and made here."""

import json
from pathlib import Path
from typing import Any

import pytest

from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde

MADE: dict[str, str] = json.loads(Path(__file__).with_name("streamiz.json").read_text(encoding="utf-8"))
SERDES: dict[str, tuple[Any, type]] = {
    "int32": (NumberSerde("int32", "little"), int),
    "int64": (NumberSerde("int64", "little"), int),
    "double": (NumberSerde("double", "little"), float),
    "string": (StringSerde(), str),
}


@pytest.mark.parametrize("what", [each for each in MADE if each.partition(" ")[0] in SERDES])
def test_each_is_read_and_made(what: str) -> None:
    name, _, said = what.partition(" ")
    serde, parse = SERDES[name]
    number = parse(said.replace("Infinity", "inf"))
    # By their text: nan is not equal to itself, and -0.0 is to 0.0.
    assert repr(serde.decode(bytes.fromhex(MADE[what]))) == repr(number)
    if said != "NaN":  # .NET's has its sign bit set
        assert serde.encode(number).hex() == MADE[what]
