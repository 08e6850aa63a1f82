"""Which engine the tests of a family, their commands and what they kill prefer."""

from pathlib import Path

import pytest

from migrate import plan, run
from migrate.engine import engines
from migrate.engine.engines import ENGINES
from tests.shared.alternation import FORCED, NAMES, Name, engine_of, prefer
from tests.shared.commands import stateferry
from tests.shared.refunds import make_application
from tests.support import KEY_VALUE, TIMESTAMPED, kafka_spec, make_store, numbered, spec_file


def test_half_of_them_take_each_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    each = [engine_of(f"test {number}") for number in range(1000)]
    assert all(400 < each.count(name) < 600 for name in NAMES)
    assert each == [engine_of(f"test {number}") for number in range(1000)]


def test_one_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(FORCED, name)
        assert {engine_of(f"test {number}") for number in range(100)} == {name}
    monkeypatch.setenv(FORCED, "fast")
    with pytest.raises(ValueError, match="should be one of"):
        engine_of("test")


def test_this_test_has_its_own() -> None:
    mine = engine_of("batch/run/test_both_engines.py::test_this_test_has_its_own")
    assert (engines.LITTLE_BYTES == 0) == (mine == "native")


@pytest.mark.skipif(bool(ENGINES[0].unavailable()), reason=ENGINES[0].unavailable())
@pytest.mark.parametrize("name", NAMES)
def test_runs_and_commands_take_it(name: Name, tmp_path: Path) -> None:
    prefer(name)
    spec = kafka_spec(tmp_path, make_application(tmp_path), source={"stores": ["refunds"]})
    planned, ran = plan(spec).engine, run(spec).engine
    assert planned is not None and ran is not None
    assert planned.names == ran.names == (name,)
    make_store(tmp_path / "old", numbered(100))
    formats = {"source": {"format": KEY_VALUE}, "target": {"format": TIMESTAMPED}}
    done = stateferry("plan", spec_file(tmp_path / "again.toml", name="again", **formats))
    assert any(line.split()[:2] == ["engine", name] for line in done.stdout.splitlines()), done.stdout + done.stderr
