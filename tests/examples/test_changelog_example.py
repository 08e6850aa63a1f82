"""The example of a changelog: real applications run on what was migrated, and what they hold is compared."""

from pathlib import Path

import pytest

from examples.changelog.__main__ import main
from tests.broker.broker import require_broker


def test_version_2_restores_nothing_and_version_1_is_right_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_broker()
    assert main(tmp_path / "changelog", customers=300) == 0
    out = capsys.readouterr().out
    assert out.count("restored 0 records") == 4
    assert out.count("each with the orders and the time that it must") == 5
