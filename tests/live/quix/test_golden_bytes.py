"""The golden bytes of the formats of Quix Streams are what the real Quix Streams writes."""

import json
from pathlib import Path

import pytest

from tests.live.quix.make_vectors import CASES, VECTORS, captured


@pytest.mark.parametrize("format_id", CASES)
def test_it_writes_the_golden_bytes(format_id: str, tmp_path: Path) -> None:
    content = json.loads((VECTORS / f"{format_id}.json").read_text(encoding="utf-8"))
    assert captured(format_id, tmp_path) == content["vectors"]
