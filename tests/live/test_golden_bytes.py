"""The golden bytes of the formats are what the real Kafka Streams writes."""

import json
from pathlib import Path

import pytest

from tests.live.kafka_streams.kinds import VERSIONS
from tests.live.kafka_streams.make_changelogs import CHANGELOGS
from tests.live.kafka_streams.make_changelogs import captured as captured_changelogs
from tests.live.kafka_streams.make_vectors import VECTORS, captured
from tests.live.kafka_streams.program import require_live


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release_writes_the_golden_bytes(version: str, tmp_path: Path) -> None:
    made = captured(version, tmp_path / "app")
    assert len(made) == (7 if version == "4.3.1" else 4)
    for format_id, vectors in made.items():
        golden = json.loads((VECTORS / f"{format_id}.json").read_text(encoding="utf-8"))["vectors"]
        assert [each["stored"] for each in vectors] == [each["stored"] for each in golden], format_id
        assert [each["record"] for each in vectors] == [each["record"] for each in golden], format_id
        assert all(version in each["provenance"] for each in golden)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release_logs_the_golden_records(version: str, tmp_path: Path) -> None:
    made = captured_changelogs(version, tmp_path)
    assert len(made) == (11 if version == "4.3.1" else 7)
    for kind, content in made.items():
        golden = json.loads((CHANGELOGS / f"{kind}.json").read_text(encoding="utf-8"))
        assert version in golden.pop("provenance")
        assert content == golden, kind
