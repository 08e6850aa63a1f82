"""What a migration logs: its phases, their progress by time, and what it tries again."""

import logging
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrate import RefusedError, Spec, abandon, cutover, load_spec, rollback, run, verify
from migrate.batch import log
from migrate.batch.log import LOGGER, RunLog
from migrate.model.events import Event
from tests.support import flip_byte, make_store, numbered, raises, spec_file

ONCE_OFFLINE = """
from pathlib import Path

HERE = Path(__file__).parent


def convert(record):
    is_at_work = (HERE / "work/orders/chunks").is_dir()  # else it is tried on a sample
    if is_at_work and not (HERE / "failed").exists():
        (HERE / "failed").touch()
        raise OSError("the network is down")
    return record
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The spec of a migration of some thirty chunks, in place, the first attempt at one of which fails."""
    make_store(tmp_path / "old", numbered(5000))
    (tmp_path / "offline.py").write_text(ONCE_OFFLINE)
    sections = {"target": {"path": None}, "conversion": {"function": "offline:convert"}, "run": {"chunk_size": "8 KiB"}}
    return spec_file(tmp_path / "migration.toml", name="orders", **sections)


@pytest.fixture
def spec(file: Path) -> Spec:
    return load_spec(file)


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """Of this level, taken out."""
    records = [record for record in caplog.records if record.name.startswith(LOGGER) and record.levelno == level]
    found = [record.getMessage() for record in records]
    caplog.clear()
    return found


@pytest.mark.usefixtures("commit_per_chunk")
def test_each_phase_and_its_progress_are_lines_with_the_migrations_name(
    spec: Spec, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is 2 s after the one before."""
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=count(0, 2).__next__))
    caplog.set_level(logging.INFO, LOGGER)
    report = run(spec)
    logged = lines(caplog)
    assert all(line.startswith("orders: ") for line in logged)
    sentences = [line.removeprefix("orders: ") for line in logged]
    started = next(
        number for number, line in enumerate(sentences) if line.startswith(f"{report.chunks_planned} chunks to")
    )
    assert [line.partition(":")[0] for line in sentences[:started]] == [
        f"checked {spec.source_path}",
        "snapshot taken",
        "plan stored",
    ]
    rewritten = [line for line in sentences if line.startswith("rewrite")]
    assert 3 < len(rewritten) < report.chunks_planned, "not for every chunk"
    assert re.fullmatch(r"rewrite 100%: (\d+)/\1 chunks, 5,000 records, [\d,]+/s, 0 s left", rewritten[-1])
    after = [line.partition(":")[0] for line in sentences[started + 1 + len(rewritten) :]]
    assert [name for name in after if "%" not in name] == ["verifying (full)", "verified", f"{report.state}; next"]
    assert {"assemble 100%", "verify 100%"} <= set(after)
    assert "verified: 5,000 records equal" in sentences
    compared = [line for line in sentences if line.startswith("verify ")]
    assert len(compared) > 2
    assert all(re.fullmatch(r"verify \d+%: [\d,]+ records, [\d,]+/s, \d+ s left", line) for line in compared)


@pytest.mark.usefixtures("commit_per_chunk")
def test_a_short_run_logs_the_end_of_each_phase_alone(
    spec: Spec, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=count(0, 0.001).__next__))
    caplog.set_level(logging.INFO, LOGGER)
    run(spec)
    progress = [line.split()[1:3] for line in lines(caplog) if "%:" in line]
    assert progress == [["rewrite", "100%:"], ["assemble", "100%:"], ["verify", "100%:"]]


def test_a_long_phase_tells_its_progress_less_often(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a twentieth of its time so far."""
    caplog.set_level(logging.INFO, LOGGER)
    run_log = RunLog("orders")
    run_log(Event("verify.started", {"mode": "full", "records": 1000}))
    caplog.clear()
    logged = []
    for now in (1, 1000, 1040, 1060):
        monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda now=now: now))
        run_log(Event("verify.progressed", {"records": 500}))
        logged += [now] * len(lines(caplog))
    assert logged == [1000, 1060]


def test_a_second_verification_tells_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    run_log = RunLog("orders")
    for _ in range(2):
        run_log(Event("verify.started", {"mode": "full", "records": 10}))
        run_log(Event("verify.progressed", {"records": 10}))
    assert sum("verify 100%" in line for line in lines(caplog)) == 2


def test_a_retry_is_a_warning(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    run(spec)
    (warning,) = lines(caplog, logging.WARNING)
    assert re.fullmatch(r"orders: old chunk 0 .*: attempt 1 of 3 failed: the network is down", warning)


def test_a_damaged_chunk_that_is_rewritten_is_a_warning(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    def damage(event: Event) -> None:
        if event.name == "dead-letters.written" and not damaged:
            damaged.append(next((spec.home / "chunks").rglob("*.sst")))
            flip_byte(damaged[0], 100)

    damaged: list[Path] = []
    run(spec, on_event=damage)
    assert any("its file was damaged" in line and "is rewritten" in line for line in lines(caplog, logging.WARNING))


def test_every_step_after_a_run_is_a_line(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    run(spec)
    caplog.set_level(logging.INFO, LOGGER)
    verify(spec, mode="digest")
    engine, verifying, *_ = lines(caplog)
    assert engine.startswith("orders: engine: portable")
    assert verifying == "orders: verifying (digest): 5,000 records"
    for command, sentence in ((cutover, "cut over"), (rollback, "rolled back"), (abandon, "abandoned")):
        command(spec)
        assert lines(caplog) == [f"orders: {sentence}"]


def test_a_name_in_a_sentence_cannot_pose_as_a_line(caplog: pytest.LogCaptureFixture) -> None:
    RunLog("orders")(Event("warning", {"sentence": "a\norders: published"}))
    assert "\n" not in lines(caplog, logging.WARNING)[0]


def test_a_refused_run_logs_no_phase(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    (spec.source_path / "CURRENT").unlink()
    raises(RefusedError, "", run, spec)
    assert lines(caplog) == []


def _stderr(program: str, *arguments: str | Path) -> list[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_a_program_that_configures_no_logging_sees_nothing(file: Path) -> None:
    assert _stderr("import sys, migrate; migrate.run(migrate.load_spec(sys.argv[1]))", file) == []


COMMAND = "from migrate.cli import main; main()"


@pytest.mark.parametrize("option", ["--json", "-v"])
def test_the_command_shows_each_line_once_and_each_retry(option: str, file: Path) -> None:
    """Also where a function of the user's configures logging."""
    module = file.with_name("offline.py")
    module.write_text(f"import logging\nlogging.basicConfig(level=logging.INFO)\n{module.read_text()}")
    shown = _stderr(COMMAND, "run", file, "--no-spark", option)
    retries = [line for line in shown if "attempt 1 of 3 failed: the network is down" in line]
    assert len(retries) == 1
    assert re.match(r"\d\d:\d\d:\d\d warning: orders: ", retries[0])
    assert len([line for line in shown if re.search("snapshot.taken", line)]) == 1
    assert not [line for line in shown if LOGGER in line]


def test_a_quiet_command_shows_none(file: Path) -> None:
    assert _stderr(COMMAND, "run", file, "--no-spark", "--quiet") == []
