"""A process that dies in native code: that piece of work is the portable engine's the next time, and it is said."""

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migrate import Spec, load_spec, plan, run, verify
from migrate.batch.chunk.native_trace import Trace, remove_traces
from migrate.batch.chunk.rewrite_chunk import RewriteTask, rewrite_chunk
from migrate.batch.chunk.task import run_tasks
from migrate.batch.home import remove_all
from migrate.batch.status.history import report
from migrate.errors import InterruptedMigrationError
from migrate.model.key_range import KeyRange
from tests.shared.builders import chunk, rewrite_task
from tests.shared.second_engine import LEFT, dying, in_further_processes, use
from tests.support import make_families, make_store, numbered, read_families, spec_file

COMMAND = "from migrate.cli import main; main()"
RECORDS = numbered(2000)
CONVERTED = "1 chunk ran on portable: a process died, or was killed, while native code converted it"
COMPARED = "1 key range ran on portable: a process died, or was killed, while native code compared it"


def _migration(folder: Path, *, left: bool, **settings: object) -> Path:
    make_families(folder / "old", {"default": RECORDS, **({LEFT: numbered(9)} if left else {})})
    return spec_file(folder / "migration.toml", name="x", run={"chunk_size": "8 KiB", **settings})


def _traces(folder: Path) -> list[Path]:
    return list((folder / "work").rglob("*.breadcrumb"))


def _run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMAND, "run", str(folder / "migration.toml"), "--json", *options]
    environment = os.environ | {"PYTHONPATH": str(folder / "site")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)


def _after_deaths(spec: Spec) -> list[str]:
    return [each.engine for each in report(spec).chunks if each.is_after_death]


@pytest.mark.parametrize("jobs", [("--no-spark",), ("--jobs", "2")], ids=["one", "two threads"])
def test_a_driver_that_dies_is_continued_by_the_next_run(jobs: tuple[str, ...], tmp_path: Path) -> None:
    """First while it rewrites, then while it compares."""
    file = _migration(tmp_path, left=False)
    in_further_processes(tmp_path / "site", tmp_path / "marks", ("rewrite", "compare"))
    for trace in range(2):
        died = _run(tmp_path, *jobs)
        assert died.returncode == -signal.SIGSEGV, died.stderr
        assert _traces(tmp_path), trace
    done = _run(tmp_path, *jobs)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["verification"]["records"] == len(RECORDS)
    words = " ".join(made["warnings"])
    assert re.search("chunks? ran on portable: a process died, or was killed, while native code converted", words)
    compared = "key ranges? ran on portable: a process died, or was killed, while native code compared"
    everything = "3 pieces of work|4 pieces of work"  # both threads of both runs have left a trace
    assert re.search(compared, words) or re.search(everything, made["engine"]["why"])
    assert set(_after_deaths(load_spec(file))) == {"portable"}
    assert {each.engine for each in report(load_spec(file)).chunks} == {"portable", "second"}
    assert not _traces(tmp_path)
    assert read_families(tmp_path / "new")["default"] == RECORDS


@pytest.mark.parametrize("mode", ["full", "digest"])
def test_a_process_of_several_that_dies_costs_its_own_task(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = _migration(tmp_path, left=True, verify=mode)
    at_work = "compare" if mode == "full" else "digest"
    monkeypatch.setenv("PYTHONPATH", in_further_processes(tmp_path / "site", tmp_path / "marks", ("rewrite", at_work)))
    use(monkeypatch)
    spec = load_spec(file)
    made = run(spec, jobs=2)
    assert made.engine is not None and made.engine.workers == "2 processes"
    failed = [each.getMessage() for each in caplog.records if "attempt 1 of 3 failed" in each.getMessage()]
    assert len(failed) == 2 and all("killed by SIGSEGV" in each for each in failed)
    assert made.warnings[-2:] == (CONVERTED, COMPARED)
    assert _after_deaths(spec) == ["portable"]
    assert report(spec).warnings[-2:] == (CONVERTED, COMPARED)
    assert not _traces(tmp_path)
    assert read_families(tmp_path / "new")["default"] == RECORDS


def _task(home: Path, folder: Path) -> RewriteTask:
    if not folder.exists():
        make_store(folder, {b"a": b"1"})
    (home / "chunks").mkdir(exist_ok=True, parents=True)
    return rewrite_task(home, folder, chunk())


def test_a_trace_stands_while_native_code_works_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, seen = tmp_path / "work", list[int]()
    use(monkeypatch, at_work=lambda _: seen.append(len(_traces(tmp_path))))
    task = _task(home, tmp_path / "old")
    assert not rewrite_chunk(task).is_after_death
    assert (seen, _traces(tmp_path)) == ([1], [])


@pytest.mark.parametrize("error", [OSError("no"), InterruptedMigrationError("stopped", hint=""), KeyboardInterrupt()])
def test_an_error_is_no_death(error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_work(_: str) -> None:
        raise error

    use(monkeypatch, at_work=at_work)
    task = _task(tmp_path / "work", tmp_path / "old")
    with pytest.raises(type(error)):
        rewrite_chunk(task)
    assert not _traces(tmp_path)


def test_a_trace_stands_until_all_work_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else fails: native code would take the process down again."""
    use(monkeypatch)
    task = _task(tmp_path / "work", tmp_path / "old")
    trace = Trace(task.home, ("rewrite", task.chunk.store_partition, task.chunk.database), task.chunk.keys, "auto")
    with pytest.raises(GeneratorExit), trace.left():
        kept = _traces(tmp_path)
        raise GeneratorExit
    (path,) = kept
    path.touch()

    def stop() -> None:
        raise InterruptedMigrationError("stopped", hint="")

    for _ in range(2):
        with pytest.raises(InterruptedMigrationError):
            rewrite_chunk(task, stop)
        assert _traces(tmp_path) == [path]
    receipt = rewrite_chunk(task)
    assert (receipt.engine, receipt.is_after_death, _traces(tmp_path)) == ("portable", True, [path])
    assert not rewrite_chunk(replace(task, engine="portable")).is_after_death
    remove_traces(tmp_path / "work")
    assert rewrite_chunk(task).engine == "second"


@pytest.mark.parametrize(("deaths", "engines"), [(2, {"second"}), (3, {"portable"})])
def test_after_some_deaths_the_portable_engine_does_everything(
    deaths: int, engines: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: str) -> None:
        raise InterruptedMigrationError("stopped", hint="")

    spec = load_spec(_migration(tmp_path, left=False))
    use(monkeypatch, at_work=stop)
    with pytest.raises(InterruptedMigrationError):
        run(spec)
    for number in range(deaths):
        (tmp_path / f"work/x/chunks/{number:012x}-native.breadcrumb").touch()
    use(monkeypatch)
    planned, made = plan(spec).engine, run(spec).engine
    does = "everything" if deaths == 3 else "those"
    assert planned is not None and made is not None and made.why == planned.why
    assert made.why.endswith(f"at {deaths} pieces of work: portable does {does}")
    assert ({each.engine for each in report(spec).chunks}, set(made.names)) == (engines, engines)
    assert not _traces(tmp_path)


def test_each_piece_of_work_has_a_trace_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    works: list[tuple[tuple[str, ...], KeyRange]] = [
        (("rewrite", "0_0", "."), KeyRange()),
        (("rewrite", "0_1", "."), KeyRange()),
        (("rewrite", "0_0", "."), KeyRange(start=b"a")),
        (("rewrite", "0_0", "."), KeyRange(end=b"a")),
        (("CompareTask", "0_0", "."), KeyRange()),
    ]
    for work in works:
        with Trace(str(tmp_path), *work, "auto").left():
            assert [Trace(str(tmp_path), *each, "auto").is_found for each in works] == [each is work for each in works]


def test_traces_are_ours_to_remove(tmp_path: Path) -> None:
    home = tmp_path / "x"
    (home / "chunks").mkdir(parents=True)
    with Trace(str(home), ("rewrite",), KeyRange(), "auto").left():
        assert remove_all(home) == ()
        assert not home.exists()


def test_a_bundle_that_dies_is_done_one_by_one(tmp_path: Path) -> None:
    """By a child of this process, as a worker of Spark is one of its daemon's."""
    home, tasks = tmp_path / "work", list[Any]()
    make_store(tmp_path / "old", RECORDS)
    (home / "chunks").mkdir(parents=True)
    (tmp_path / "marks").mkdir()
    middle = b"key-00001000"
    tasks = [
        rewrite_task(home, tmp_path / "old", chunk(0, end=middle)),
        rewrite_task(home, tmp_path / "old", chunk(1, start=middle)),
    ]
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        use(pytest.MonkeyPatch(), at_work=dying(str(tmp_path / "marks"), ("rewrite",)))
        run_tasks(tasks)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV
    with pytest.MonkeyPatch.context() as patch:
        use(patch)
        receipts = [run_tasks([task])[0] for task in tasks]
    assert [(each.engine, each.is_after_death) for each in receipts] == [("portable", True), ("second", False)]  # type: ignore[union-attr]


def test_a_later_verification_leaves_traces_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    use(monkeypatch, at_work=lambda what: seen.append((what, len(_traces(tmp_path)))))
    spec = load_spec(_migration(tmp_path, left=False, engine="portable"))
    run(spec)
    assert seen == []
    again = load_spec(spec_file(tmp_path / "migration.toml", name="x", run={"chunk_size": "8 KiB"}))
    assert verify(again).verification.ok
    assert set(seen) == {("compare", 1)}
    assert not _traces(tmp_path)
