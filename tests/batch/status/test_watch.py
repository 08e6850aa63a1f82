"""`status --watch`: a run of another process is followed, and is none the wiser."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from migrate import cutover, finalize, load_spec, rollback, run
from migrate.batch.status.status import Watch
from tests.shared.commands import stateferry
from tests.shared.following import COMMAND, held_run, make_migration, next_look, watching
from tests.support import tree_state


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return make_migration(tmp_path)


def test_a_run_of_another_process_is_followed_to_its_end(spec: Path) -> None:
    with held_run(spec) as process, watching(spec, "--json") as watch:
        first = next_look(watch)
        assert (first["state"], first["at_work"], first["is_over"]) == ("rewriting", True, False)
        assert first["chunks_left"] > 1
        (spec.parent / "hold").unlink()
        output, errors = watch.communicate(timeout=120)
        assert (watch.returncode, errors) == (0, "")
        assert process.wait(timeout=60) == 0
    looks = [first, *map(json.loads, output.splitlines())]
    last = looks[-1]
    assert (last["state"], last["chunks_left"], last["is_over"], last["at_work"]) == ("published", 0, True, False)
    assert last["totals"]["records_in"] == 1500
    assert last["records_per_second"] > 0
    left = [look["chunks_left"] for look in looks]
    assert left == sorted(left, reverse=True)
    assert [look["is_over"] for look in looks[:-1]] == [False] * (len(looks) - 1)


def test_the_watch_ends_with_a_run_that_is_killed(spec: Path) -> None:
    with held_run(spec) as process, watching(spec, "--json") as watch:
        next_look(watch)
        process.kill()
        output, _ = watch.communicate(timeout=60)
    assert watch.returncode == 0
    last = json.loads(output.splitlines()[-1])
    assert (last["state"], last["at_work"], last["is_over"]) == ("rewriting", False, True)
    assert last["notice"].startswith(f"the run has ended, and the migration is not finished: stateferry run {spec}")


def test_where_no_run_is_at_work_it_reports_that_and_waits_for_one(spec: Path) -> None:
    with held_run(spec) as process:
        process.kill()
    (spec.parent / "hold").unlink()
    with watching(spec, "--json") as watch:
        first = next_look(watch)
        assert (first["at_work"], first["is_over"]) == (False, False)
        assert first["notice"] == f"no run is at work on this host: stateferry run {spec} (resumes)"
        assert stateferry("run", spec, "--no-spark").returncode == 0
        output, _ = watch.communicate(timeout=60)
    assert watch.returncode == 0
    assert json.loads(output.splitlines()[-1])["state"] == "published"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_watch_and_not_the_run(number: signal.Signals, spec: Path) -> None:
    with held_run(spec) as process:
        with watching(spec, "--json") as watch:
            next_look(watch)
            watch.send_signal(number)
            _, errors = watch.communicate(timeout=60)
        assert watch.returncode == 0
        assert "no longer watching" in errors
        assert process.poll() is None
        (spec.parent / "hold").unlink()
        assert process.wait(timeout=60) == 0


def test_who_stops_reading_ends_the_watch(spec: Path) -> None:
    with held_run(spec), watching(spec, "--json") as watch:
        next_look(watch)
        assert watch.stdout is not None
        watch.stdout.close()
        assert watch.wait(timeout=60) == 0
        assert watch.stderr is not None
        assert watch.stderr.read() == ""


def test_a_log_gets_a_line_where_something_has_changed(spec: Path) -> None:
    assert run(load_spec(spec)).state == "published"
    done = stateferry("status", spec, "--watch")
    assert done.returncode == 0
    printed = done.stdout.splitlines()
    assert len(printed) == 2
    assert "published 100 %" in printed[0]
    assert "1,500 records" in printed[0]
    assert "0 rejected" in printed[0]
    assert printed[1].endswith(f"when sure, stateferry finalize {spec}")


def test_a_terminal_gets_a_table(spec: Path) -> None:
    """`script` gives the command a terminal."""
    if shutil.which("script") is None:
        pytest.skip("util-linux's `script` is not installed")
    run(load_spec(spec))
    command = f"{COMMAND[0]} -c '{COMMAND[2]}' status {spec} --watch"
    shown = subprocess.run(
        ["script", "-qec", command, "/dev/null"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout
    for word in ("migration", "published", "(100 %)", "records", "note"):
        assert word in shown


def test_a_look_changes_nothing(spec: Path) -> None:
    with held_run(spec) as process:
        process.kill()
    before = tree_state(spec.parent / "work"), tree_state(spec.parent / "old")
    watch = Watch(load_spec(spec))
    assert [watch.poll().state for _ in range(3)] == ["rewriting"] * 3
    assert (tree_state(spec.parent / "work"), tree_state(spec.parent / "old")) == before


def test_nothing_is_made_where_nothing_was_started(spec: Path) -> None:
    before = tree_state(spec.parent)
    seen = Watch(load_spec(spec)).poll()
    assert (seen.state, seen.at_work, seen.is_over) == ("not started", False, False)
    assert tree_state(spec.parent) == before


def test_a_switched_migration_is_nothing_to_follow(tmp_path: Path) -> None:
    spec = load_spec(make_migration(tmp_path, target=None))
    run(spec)
    seen = [Watch(spec).poll()]
    for verb in (cutover, rollback, cutover, finalize):
        verb(spec)
        seen.append(Watch(spec).poll())
    assert [look.state for look in seen] == ["verified", "cut over", "rolled back", "cut over", "finalized"]
    assert all(look.is_over for look in seen)
    assert all(look.chunks_left == 0 for look in seen)


def test_an_interval_of_nothing_is_refused(spec: Path) -> None:
    refused = stateferry("status", spec, "--watch", "--interval", "0")
    assert refused.returncode == 2
    assert "--interval" in refused.stderr
