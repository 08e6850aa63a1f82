"""The golden bytes of Faust's format are what the real Faust writes."""

import json
from pathlib import Path

from tests.live.faust.make_vectors import FORMAT, VECTORS, captured


def test_it_writes_the_golden_bytes(tmp_path: Path) -> None:
    content = json.loads((VECTORS / f"{FORMAT}.json").read_text(encoding="utf-8"))
    assert captured(tmp_path) == content["vectors"]
