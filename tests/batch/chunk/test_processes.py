"""Runs over several processes of this machine: the same stores as in one, whatever ends the processes."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import InterruptedMigrationError, SpecError, load_spec, replay, run, verify
from migrate.batch.chunk.executor import here
from migrate.batch.context import Context
from migrate.batch.run import run_with
from migrate.batch.stop import Stop
from migrate.model.events import Event
from tests.shared.commands import stateferry
from tests.shared.following import await_it
from tests.support import make_store, numbered, read_family, spec_file

COMMAND = "from migrate.cli import main; main()"
RECORDS = numbered(3000)
NEW = {key: value[::-1] for key, value in RECORDS.items()}
HEAD = """
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent


def is_first(name):
    try:
        (HERE / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def convert(record):
    if record.key.endswith(b"00"):
        print("said by the function")
    if (HERE / "work/x/chunks").is_dir():  # else it is tried on a sample
        (HERE / f"pid-{os.getpid()}").touch()
        at_work(record)
    return replace(record, value=record.value[::-1])


"""
CALM = "def at_work(record):\n    pass\n"
DIES_ONCE = """
def at_work(record):
    if record.key.endswith(b"777") and is_first("dead"):
        os.kill(os.getpid(), signal.SIGKILL)
"""
ALWAYS_DIES = """
def at_work(record):
    if record.key.endswith(b"1777"):
        os._exit(9)
"""
FAILS_ONCE = """
class Odd(OSError):
    def __init__(self):
        super().__init__("the network is down")
        self.cannot_be_pickled = lambda: None

def at_work(record):
    if record.key.endswith(b"777") and is_first("failed"):
        raise Odd()
"""
WAITS = """
def at_work(record):
    if record.key.endswith(b"777"):
        (HERE / "reached").touch()
        while not (HERE / "go").exists():
            time.sleep(0.01)
"""


def migration(folder: Path, at_work: str) -> Path:
    make_store(folder / "old", RECORDS)
    (folder / "function.py").write_text(HEAD + at_work)
    sections = {"conversion": {"function": "function:convert"}, "run": {"chunk_size": "4 KiB"}}
    return spec_file(folder / "migration.toml", name="x", **sections)


def pids(folder: Path) -> set[int]:
    return {int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_processes_make_the_same_as_one(tmp_path: Path) -> None:
    reports = {}
    for jobs in (1, 2):
        (tmp_path / str(jobs)).mkdir()
        spec = load_spec(migration(tmp_path / str(jobs), CALM))
        reports[jobs] = run(spec, jobs=jobs)
        assert read_family(spec.base_dir / "new") == NEW
        assert verify(spec, jobs=jobs).verification.ok
    one, two = (reports[jobs].model_dump(exclude={"seconds", "run_id"}) for jobs in (1, 2))
    assert one["chunks_planned"] == two["chunks_planned"]
    assert one["totals"]["records_out"] == two["totals"]["records_out"] == len(RECORDS)
    assert pids(tmp_path / "1") == {os.getpid()}
    assert len(pids(tmp_path / "2")) == 4, "two for each command"
    assert os.getpid() not in pids(tmp_path / "2")
    assert not any(map(is_alive, pids(tmp_path / "2"))), "they end with the run"


@pytest.mark.parametrize(("jobs", "chunk_size", "chunks"), [(1, "1 GiB", 1), (2, "1 GiB", 3), (2, "8 MiB", 5)])
def test_a_store_smaller_than_a_chunk_is_cut_for_several_processes(
    jobs: int, chunk_size: str, chunks: int, tmp_path: Path
) -> None:
    file = migration(tmp_path, CALM)
    shutil.rmtree(tmp_path / "old")
    make_store(tmp_path / "old", {b"%03d" % number: bytes(80 << 10) for number in range(500)})  # 39 MiB
    text = file.read_text().replace("4 KiB", chunk_size)
    file.write_text(text.replace('[conversion]\nfunction = "function:convert"\n', ""))
    report = run(load_spec(file), jobs=jobs)
    assert report.chunks_planned == chunks
    assert report.totals.records_out == 500


def test_what_the_function_prints_is_no_part_of_the_report(tmp_path: Path) -> None:
    done = stateferry("run", migration(tmp_path, CALM), "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["records_out"] == len(RECORDS)


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_process_that_is_killed_costs_its_own_task(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = load_spec(migration(tmp_path, DIES_ONCE))
    run(spec, jobs=2)
    assert read_family(tmp_path / "new") == NEW
    (warning,) = _warnings(caplog)
    assert warning.endswith("attempt 1 of 3 failed: its process ended: killed by SIGKILL")
    assert len(pids(tmp_path)) == 3, "another one took its place"


def test_a_record_that_always_kills_is_named(tmp_path: Path) -> None:
    file = migration(tmp_path, ALWAYS_DIES)
    done = stateferry("run", file, "--jobs", "2")
    assert done.returncode == 3
    assert 'the worker died 3 times, last on the key "key-00001777": its process ended: exit code 9' in done.stderr
    (tmp_path / "function.py").write_text(HEAD + CALM)
    assert stateferry("abandon", file, "--yes").returncode == 0


def test_an_error_that_cannot_be_sent_is_worth_a_retry_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(load_spec(migration(tmp_path, FAILS_ONCE)), jobs=2)
    assert read_family(tmp_path / "new") == NEW
    (warning,) = _warnings(caplog)
    assert "attempt 1 of 3 failed: " in warning and "the network is down" in warning


def test_a_stop_ends_them_after_its_grace(tmp_path: Path) -> None:
    spec, stop = load_spec(migration(tmp_path, WAITS)), Stop(grace_seconds=0.1)

    def stop_when_reached(event: Event) -> None:
        if event.name == "chunk.committed" and (tmp_path / "reached").exists():
            stop.request()

    with pytest.raises(InterruptedMigrationError):
        run_with(here(2), Context(spec, stop_when_reached, stop=stop))
    assert not any(map(is_alive, pids(tmp_path)))
    (tmp_path / "go").touch()
    run(spec, jobs=2)
    assert read_family(tmp_path / "new") == NEW


def _started(file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMMAND, "run", str(file), "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    await_it((file.parent / "reached").exists)
    return process


def test_an_interrupt_of_all_processes_lets_running_tasks_end(tmp_path: Path) -> None:
    """Ctrl-C on a terminal, and what a service manager sends."""
    file = migration(tmp_path, WAITS)
    with _started(file) as process:
        workers = pids(tmp_path)
        for pid in (*workers, process.pid):
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert process.stderr is not None
        assert any("stop requested" in line for line in process.stderr)
        assert all(map(is_alive, workers))
        (tmp_path / "go").touch()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 5, errors
    assert "failed" not in errors
    done = stateferry("run", file, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert read_family(tmp_path / "new") == NEW


def test_they_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    file = migration(tmp_path, WAITS)
    with _started(file) as process:
        workers = pids(tmp_path)
        assert all(map(is_alive, workers))
        process.kill()
        try:
            await_it(lambda: not any(map(is_alive, workers)))
        finally:  # one that is still there waits for a file, or for a driver, and would for ever
            for pid in filter(is_alive, workers):
                os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    assert stateferry("run", file, "--jobs", "2").returncode == 0
    assert read_family(tmp_path / "new") == NEW


@pytest.mark.parametrize("verb", ["run", "replay", "verify"])
def test_they_are_no_part_of_spark(verb: str, tmp_path: Path) -> None:
    file = migration(tmp_path, CALM)
    done = stateferry(verb, file, "--jobs", "2", "--master", "local[2]")
    assert done.returncode == 2
    assert "--jobs is for a run without Spark" in done.stderr
    with pytest.raises(SpecError, match="2 jobs are processes without Spark"):
        run(load_spec(file), master="local[2]", jobs=2)


def test_a_function_without_a_name_cannot_be_sent(tmp_path: Path) -> None:
    spec = load_spec(migration(tmp_path, CALM))
    conversion = spec.conversion.model_copy(update={"function": lambda record: record})
    with pytest.raises(SpecError, match="does not reach the processes of `jobs`"):
        run(spec.model_copy(update={"conversion": conversion}), jobs=2)


@pytest.mark.parametrize("work", [run, replay, verify])
@pytest.mark.parametrize("jobs", [0, -1])
def test_no_process_at_all_is_a_mistake(work: Callable[..., object], jobs: int, tmp_path: Path) -> None:
    """Every task would wait for one, for ever."""
    with pytest.raises(SpecError, match=f"by {jobs} processes"):
        work(load_spec(migration(tmp_path, CALM)), jobs=jobs)
