"""Which engine a run uses: said in plan, doctor, log and reports, and in threads or processes as it needs."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from migrate import InterruptedMigrationError, RefusedError, Spec, SpecError, doctor, load_spec, plan, run, verify
from migrate.batch.chunk.executor import InProcessExecutor, here
from migrate.batch.context import Context
from migrate.batch.run import run_with
from migrate.batch.status.history import report
from migrate.batch.stop import Stop
from migrate.model.engine_choice import EngineChoice
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.page.run_page import run_page
from tests.shared.commands import stateferry
from tests.shared.second_engine import LEFT, use
from tests.support import (
    make_families,
    make_store,
    numbered,
    raw_spec,
    read_families,
    read_family,
    spec_file,
    tree_state,
)

RECORDS = numbered(3000)
SMALL: dict[str, Any] = {"chunk_size": "8 KiB"}


def _spec(folder: Path, *, left: bool = False, **settings: object) -> Spec:
    families = {"default": RECORDS, **({LEFT: numbered(5)} if left else {})}
    if not (folder / "old").exists():
        make_families(folder / "old", families)
    return raw_spec(folder, folder / "old", run={**SMALL, **settings})


def _engines(spec: Spec) -> set[str]:
    return {chunk.engine for chunk in report(spec).chunks}


def test_every_report_names_the_engine_and_why_the_other_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch)
    spec = _spec(tmp_path, left=True)
    text = f"second, portable (second declines: it does not like {LEFT})"
    planned, checked = plan(spec), doctor(spec)
    assert str(planned.engine) == str(checked.engine) == text
    assert text in dry_run_page(planned)
    with caplog.at_level(logging.INFO, "stateferry.batch"):
        ran = run(spec)
    assert str(ran.engine) == text
    assert [each.getMessage() for each in caplog.records if "engine" in each.getMessage()] == [f"test: engine: {text}"]
    assert json.loads(ran.model_dump_json())["engine"]["names"] == ["second", "portable"]
    assert _engines(spec) == {"portable, second"}
    assert "portable, second" in run_page(report(spec))


def test_commands_say_it(tmp_path: Path) -> None:
    make_store(tmp_path / "old", RECORDS)
    file = spec_file(tmp_path / "migration.toml", run={"engine": "portable"})
    for verb, line in (("plan", "engine"), ("doctor", "engine:"), ("run", "engine")):
        done = stateferry(verb, file, *(["--no-spark"] if verb != "plan" else []))
        assert done.returncode == 0, done.stderr
        found = next(each for each in done.stdout.splitlines() if each.strip().startswith(line))
        assert found.split(maxsplit=1)[1].strip() == 'portable ([run] engine = "portable")'
    assert any("engine: portable" in each for each in done.stderr.splitlines())
    shown = stateferry("report", file).stdout
    assert any(each.split()[:2] == ["engine", "portable:"] for each in shown.splitlines())


def test_little_data_is_not_worth_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, little_bytes=1 << 20)
    ran = run(_spec(tmp_path))
    assert str(ran.engine) == "portable (so little data that starting the second engine takes longer)"
    assert _engines(_spec(tmp_path)) == {"portable"}


def test_what_must_be_native_and_cannot_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch)
    spec = _spec(tmp_path, left=True, engine="native")
    before = tree_state(tmp_path / "old")
    planned = plan(spec)
    assert planned.verdict.exit_code == doctor(spec).exit_code == 6
    assert planned.engine is None
    (failed,) = [check for check in planned.checks if check.outcome == "failed"]
    assert (failed.name, failed.exit_code) == ("run.engine", 6)
    with pytest.raises(RefusedError, match=f"second declines: it does not like {LEFT}"):
        run(spec)
    assert not list(spec.home.rglob("*plan*")) and not (spec.home / "snapshot").exists()
    assert tree_state(tmp_path / "old") == before


def test_what_cannot_be_prepared_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, unprepared="no compiler")
    assert plan(_spec(tmp_path)).engine == EngineChoice(setting="auto", names=("second",), is_threaded=True)
    ran = run(_spec(tmp_path), jobs=2)
    assert str(ran.engine) == "portable in 2 processes (second declines: no compiler)"
    assert _engines(_spec(tmp_path)) == {"portable"}


def test_the_setting_may_change_between_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunks of one engine and those of another are one migration."""
    use(monkeypatch)
    with pytest.raises(InterruptedMigrationError):
        run(_spec(tmp_path, engine="portable", time_budget="0s"))
    ran = run(_spec(tmp_path, engine="native"))
    assert ran.verification.ok
    assert _engines(_spec(tmp_path)) == {"second"}
    assert verify(_spec(tmp_path, engine="portable")).verification.ok


@pytest.mark.parametrize("mode", ["full", "digest"])
@pytest.mark.parametrize("engine", ["auto", "native", "portable"])
def test_it_also_verifies(mode: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    use(monkeypatch, at_work=seen.append)
    assert run(_spec(tmp_path, engine=engine, verify=mode)).verification.ok
    expected = set() if engine == "portable" else {"rewrite", "compare" if mode == "full" else "digest"}
    assert set(seen) == expected
    assert read_family(tmp_path / "new") == RECORDS


def test_jobs_are_threads_where_no_engine_holds_the_lock_and_work_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks of one store partition meet at a barrier, in the rewriting and in the full verification."""
    barriers = {"rewrite": threading.Barrier(2, timeout=30), "compare": threading.Barrier(2, timeout=30)}
    waited: dict[str, set[int]] = {"rewrite": set(), "compare": set()}
    running, most, lock = 0, 0, threading.Lock()

    def at_work(what: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            is_early = len(waited[what]) < 2
            waited[what].add(threading.get_ident())
        if is_early:
            barriers[what].wait()
        time.sleep(0.01)  # for a third one to come, if it is let in
        with lock:
            running -= 1

    use(monkeypatch, at_work=at_work)
    ran = run(_spec(tmp_path), jobs=2)
    assert str(ran.engine) == "second in 2 threads"
    assert ran.store_partitions == 1 and ran.chunks_planned > 4
    assert most == 2, "there is one call more, which waits"
    assert all(len(threads) >= 2 for threads in waited.values())
    assert read_family(tmp_path / "new") == RECORDS


@pytest.mark.parametrize(("left", "engine"), [(True, "auto"), (False, "portable")])
def test_jobs_are_processes_where_python_does_some_of_the_work(
    left: bool, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_work(_: str) -> None:
        raise AssertionError("in this process")

    use(monkeypatch, at_work=at_work)
    ran = run(_spec(tmp_path, left=left, engine=engine), jobs=2)
    assert ran.engine is not None and ran.engine.workers == "2 processes"
    assert read_families(tmp_path / "new")["default"] == RECORDS


def test_an_error_in_one_thread_ends_the_run_and_the_next_run_does_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def at_work(what: str) -> None:
        calls.append(what)
        if len(calls) == 5:
            raise RefusedError("not that one", hint="go on")

    use(monkeypatch, at_work=at_work)
    with pytest.raises(RefusedError, match="not that one"):
        run(_spec(tmp_path), jobs=2)
    assert not list((tmp_path / "work").rglob("*.breadcrumb"))
    ran = run(_spec(tmp_path), jobs=2)
    assert 0 < ran.chunks_done_before < ran.chunks_planned
    assert read_family(tmp_path / "new") == RECORDS


def test_a_stop_abandons_threads_at_their_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its grace: what they were at is done again by the next run."""
    spec, stop, cancelled = _spec(tmp_path), Stop(grace_seconds=0.1), threading.Event()
    cancel = InProcessExecutor.cancel

    def cancel_and_say_it(executor: InProcessExecutor) -> None:
        cancel(executor)
        cancelled.set()

    def at_work(_: str) -> None:
        stop.request()
        assert cancelled.wait(60)

    monkeypatch.setattr(InProcessExecutor, "cancel", cancel_and_say_it)
    use(monkeypatch, at_work=at_work)
    with pytest.raises(InterruptedMigrationError):
        run_with(here(2), Context(spec, stop=stop))
    assert report(spec).chunks == ()
    assert not list(spec.home.rglob("*.breadcrumb")) and not list(spec.home.rglob("*.receipt.json"))
    use(monkeypatch)
    assert run(spec, jobs=2).chunks_done_before == 0
    assert read_family(tmp_path / "new") == RECORDS


def test_an_unknown_engine_is_a_mistake(tmp_path: Path) -> None:
    file = spec_file(tmp_path / "migration.toml", run={"engine": "fast"})
    with pytest.raises(SpecError, match=r"run\.engine: should be 'auto', 'native' or 'portable'"):
        load_spec(file)
