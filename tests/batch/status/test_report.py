"""`report`: what was done, from the ledger alone, at every stage of a migration and after it."""

import json
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, Spec, cutover, finalize, load_spec, rejects, rollback, run, status
from migrate.batch.status.history import report
from migrate.errors import RejectedError
from migrate.show.output import Output
from migrate.show.text.report_text import show_rejects
from tests.shared.commands import stateferry
from tests.shared.following import RECORDS, held_run, make_migration
from tests.support import copy_fixture, kafka_spec, make_store, numbered, raises, raw_spec, tree_state


def _json(spec: Path, *options: str | Path) -> dict[str, Any]:
    done = stateferry("report", spec, "--json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


def test_a_migration_that_was_not_started_is_reported_as_such(tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    before = tree_state(tmp_path)
    reported = _json(spec)
    assert (reported["state"], reported["migration_id"], reported["chunks"]) == ("not started", None, [])
    assert reported["next_step"] == f"stateferry run {spec}"
    assert "not started" in stateferry("report", spec).stdout
    assert tree_state(tmp_path) == before


def test_a_killed_run_and_the_one_that_resumed_it_are_reported_apart(tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    with held_run(spec) as process:
        working = f"a run with pid {process.pid} is working on it: follow it with stateferry status SPEC --watch"
        assert status(load_spec(spec)).next_step == report(load_spec(spec)).next_step == working
        with pytest.raises(RefusedError, match=f"is at work in .*, with pid {process.pid}"):
            run(load_spec(spec))
        process.kill()
    before = tree_state(tmp_path)
    half = _json(spec)
    assert (half["state"], len(half["runs"])) == ("rewriting", 1)
    assert tree_state(tmp_path) == before
    (tmp_path / "hold").unlink()
    ran = stateferry("run", spec, "--no-spark")
    assert ran.returncode == 0
    page = tmp_path / "page.html"
    reported = _json(spec, "--html", page)
    shown = page.read_text(encoding="utf-8")
    for text in (ran.stdout, stateferry("status", spec).stdout):
        speeds = re.findall("(?:rewriting|verification) (.* records/s): (.*) in (.*)", text)
        assert [records for _, records, _ in speeds] == ["1,500 records", "1,500 records"]
        for rate, records, elapsed in speeds:
            assert rate in shown
            assert f"{records} in {elapsed}" in shown
    assert (reported["state"], reported["chunks_left"], len(reported["runs"])) == ("published", 0, 2)
    assert len(reported["chunks"]) == reported["chunks_planned"] == sum(each["chunks"] for each in reported["runs"])
    assert sum(each["records_in"] for each in reported["chunks"]) == reported["totals"]["records_in"] == len(RECORDS)
    assert [step["step"] for step in reported["steps"]] == ["assembled", "verified", "publishing", "published"]
    assert reported["verification"]["records"] == len(RECORDS)
    assert reported["new_stores"] == [str(tmp_path / "new")]
    for chunk in reported["chunks"]:
        assert chunk["started_at_ms"] <= chunk["committed_at_ms"] <= reported["made_at_ms"]
        assert (chunk["host"], chunk["engine"]) == (socket.gethostname(), "portable")
    assert [each["committed_at_ms"] for each in reported["chunks"]] == sorted(
        each["committed_at_ms"] for each in reported["chunks"]
    )


def test_text_names_what_matters(tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    run(load_spec(spec))
    reported = stateferry("report", spec)
    assert reported.returncode == 0
    for fact in ("published", "1,500 read, 1,500 written", "full: 1,500 records equal", "assembled", "started", "next"):
        assert fact in reported.stdout


def _stages(spec: Spec) -> list[tuple[str, list[str]]]:
    reported = report(spec)
    assert (reported.chunks_left, reported.totals.records_in) == (0, len(RECORDS))
    assert len(reported.chunks) == reported.chunks_planned
    assert len(reported.runs) == 1, "a switch is no run"
    return [(reported.state, [step.step for step in reported.steps][2:])]


def test_it_is_reported_after_every_switch_whatever_files_are_gone(tmp_path: Path) -> None:
    spec = load_spec(make_migration(tmp_path, target=None))
    run(spec)
    assert report(spec).new_stores[0].is_relative_to(spec.home / "new")
    stages = _stages(spec)
    for verb in (cutover, rollback, cutover):
        verb(spec)
        stages += _stages(spec)
    shutil.rmtree(spec.home / "chunks")  # by hand, as docs/operations.md allows after a cut-over
    shutil.rmtree(spec.home / "snapshot")
    stages += _stages(spec)
    assert report(spec).new_stores == (spec.source_path,)
    finalize(spec)
    stages += _stages(spec)
    assert [state for state, _ in stages] == [
        "verified", "cut over", "rolled back", "cut over", "cut over", "finalized"
    ]  # fmt: skip
    assert stages[-1][1] == [
        "cutting-over", "cut-over", "rolling-back", "rolled-back", "cutting-over", "cut-over", "finalizing", "finalized"
    ]  # fmt: skip
    assert report(spec).new_stores == (spec.source_path,)


def test_the_function_need_not_be_there_any_more(tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    run(load_spec(spec))
    (tmp_path / "held.py").unlink()
    shutil.rmtree(tmp_path / "old")
    assert _json(spec)["state"] == "published"


def test_every_store_partition_is_named(tmp_path: Path) -> None:
    spec = kafka_spec(tmp_path, copy_fixture(tmp_path), run={"chunk_size": "64 KiB"})
    run(spec)
    reported = report(spec)
    partitions = {f"{task}/{store}" for task in ("0_0", "0_1", "0_2") for store in ("orders", "refunds")}
    assert {chunk.store_partition for chunk in reported.chunks} == partitions
    assert {step.store_partition for step in reported.steps} == {*partitions, None}
    assert set(reported.new_stores) == {
        tmp_path / "new/orders-app" / name.replace("/", "/rocksdb/") for name in partitions
    }
    assert "changelog" in reported.changelog


@pytest.fixture
def rejected(tmp_path: Path) -> Spec:
    """Two reasons, one of them much more frequent; values that a page must not run."""
    records = numbered(300) | {b"z-%d" % number: b"<script>%d</script>" % number for number in range(2)}
    make_store(tmp_path / "old", records)
    (tmp_path / "odd.py").write_text(
        "def convert(record):\n"
        "    if record.key.startswith(b'z-'):\n"
        "        raise ValueError('of the old kind')\n"
        "    if record.key.endswith(b'7'):\n"
        "        raise KeyError('seven')\n"
        "    return record\n"
    )
    run_section = {"on_reject": "dead-letter", "max_rejects": 32, "chunk_size": "2 KiB"}
    return raw_spec(tmp_path, tmp_path / "old", conversion={"function": "odd:convert"}, run=run_section)


def _check_rejects(spec: Spec) -> None:
    first, second = report(spec).rejects
    assert ("seven" in first.reason, first.records, len(first.examples)) == (True, 30, 3)
    assert ("of the old kind" in second.reason, second.records, len(second.examples)) == (True, 2, 2)
    assert [example.key.text for example in second.examples] == ["z-0", "z-1"]
    assert second.examples[1].value.text == "<script>1</script>"
    assert second.examples[1].value.hex == b"<script>1</script>".hex()
    assert first.examples[0].store_partition == "old"


def test_rejects_are_reported_by_reason(rejected: Spec) -> None:
    run(rejected)
    assert report(rejected).totals.rejected == 32
    _check_rejects(rejected)
    assert [reason.place for reason in report(rejected).rejects] == ["odd.py:5", "odd.py:3"]
    assert status(rejected).rejects == rejects(rejected).rejects == report(rejected).rejects
    shutil.rmtree(rejected.home / "chunks")
    shutil.rmtree(rejected.home / "dead-letters")
    _check_rejects(rejected)
    assert report(rejected).totals.rejected == 32


def test_rejects_of_chunks_whose_files_are_gone_are_not_called_none(rejected: Spec) -> None:
    spec = rejected.model_copy(update={"target": rejected.target.model_copy(update={"path": None})})
    run(spec)
    shutil.rmtree(spec.home / "dead-letters")
    shutil.rmtree(spec.home / "chunks")
    count = status(spec).chunks_planned
    gone = f"the files of {count} chunks are gone, with 32 rejected records: stateferry run SPEC rewrites them"
    reports = status(spec), report(spec)
    assert [(each.state, each.chunks_left, each.next_step) for each in reports] == [("rewriting", count, gone)] * 2
    assert rejects(spec).next_step == gone
    run(spec)
    assert (rejects(spec).rejected, status(spec).state) == (32, "verified")
    assert rejects(spec).next_step.startswith("fix the function")
    next((spec.home / "chunks").rglob("*.sst")).unlink()
    assert rejects(spec).next_step.startswith("the files of 1 chunk are gone")


def test_rejects_that_were_skipped_have_their_reasons_too(rejected: Spec) -> None:
    spec = rejected.model_copy(update={"run": rejected.run.model_copy(update={"on_reject": "skip"})})
    run(spec)
    _check_rejects(spec)
    shown = "\n".join(show_rejects(rejects(spec), Output()))
    for words in ("30 records", "at odd.py:5", 'the key "z-0" in old chunk ', "are in use"):
        assert words in shown


def test_a_failed_run_is_reported(rejected: Spec) -> None:
    spec = rejected.model_copy(update={"run": rejected.run.model_copy(update={"on_reject": "fail"})})
    raises(RejectedError, "", run, spec)
    reported = report(spec)
    assert reported.state == "rewriting"
    assert "stateferry replay SPEC" in reported.next_step
    (stopped,) = rejects(spec).rejects
    assert (stopped.ended_run, stopped.place, stopped.examples[0].key.text) == (True, "odd.py:5", "key-00000007")
    assert reported.rejects == (stopped,)
    skipping = spec.model_copy(update={"run": spec.run.model_copy(update={"on_reject": "skip"})})
    run(skipping)
    assert not any(reason.ended_run for reason in rejects(skipping).rejects)


def test_the_page_is_written_at_once_and_alone(tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    run(load_spec(spec))
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "report.html").write_text("of before")
    reported = stateferry("report", spec, "--html", pages / "report.html")
    assert reported.returncode == 0
    assert "published" in reported.stdout
    assert [file.name for file in pages.iterdir()] == ["report.html"]
    assert "<html" in (pages / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["none/report.html", "."])
def test_a_page_that_can_be_nowhere_is_a_mistake_in_the_command(place: str, tmp_path: Path) -> None:
    spec = make_migration(tmp_path)
    before = tree_state(tmp_path)
    reported = stateferry("report", spec, "--html", tmp_path / place)
    assert (reported.returncode, reported.stdout) == (2, "")
    assert "--html" in reported.stderr
    assert "next:" in reported.stderr
    assert tree_state(tmp_path) == before
