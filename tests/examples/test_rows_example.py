"""The example of rows: a real application finds every key under another number of partitions."""

from pathlib import Path

import pytest

from examples.rows.__main__ import main
from tests.broker.broker import require_broker


def test_every_customer_is_found_with_twelve_partitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_broker()
    assert main(tmp_path / "rows", customers=300) == 0
    out = capsys.readouterr().out
    assert out.count("finds every customer where its own partitioner looks") == 2
    assert "has 300 rows" in out
