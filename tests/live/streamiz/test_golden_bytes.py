"""The golden bytes of Streamiz' formats are what the real Streamiz writes."""

import json
from pathlib import Path

import pytest

from tests.live.streamiz.make_vectors import SERDES, VECTORS, captured
from tests.live.streamiz.program import require_streamiz, run_program


@pytest.fixture(autouse=True)
def _live() -> None:
    require_streamiz()


def test_it_writes_the_golden_bytes(tmp_path: Path) -> None:
    made = captured(tmp_path)
    assert len(made) == 4
    for format_id, vectors in made.items():
        assert json.loads((VECTORS / f"{format_id}.json").read_text(encoding="utf-8"))["vectors"] == vectors


def test_its_serdes_make_these_bytes() -> None:
    assert json.loads(SERDES.read_text(encoding="utf-8")) == run_program(mode="serdes")
