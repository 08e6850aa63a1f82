"""What a later call trusts of an earlier one, and what happens between its steps."""

import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Event as ProcessEvent
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from formats import StateRecord
from migrate import RefusedError, Spec, VerificationError, migrate_store, run, status, verify
from migrate.batch.identity import spec_identity, stable_json
from migrate.errors import SourceChangedError
from migrate.model.events import Event
from migrate.model.ledger_row import Step
from migrate.spec.conversion import conversion_ref
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import (
    KEY_VALUE,
    RAW,
    kafka_spec,
    make_families,
    make_store,
    numbered,
    open_store,
    raises,
    raw_spec,
    read_delta,
    read_family,
    read_ledger,
)


def changed(spec: Spec, **section: object) -> Spec:
    return spec.model_copy(
        update={name: getattr(spec, name).model_copy(update=update) for name, update in section.items()}
    )


@pytest.mark.parametrize(
    "difference",
    [
        {"conversion": {"default_timestamp_ms": 7}},
        {"target": {"path": Path("elsewhere")}},
        {"target": {"format": KEY_VALUE}},
        {"source": {"path": Path("another")}},
    ],
    ids=["default timestamp", "target path", "target format", "source"],
)
def test_a_finished_migration_does_not_answer_for_another(difference: dict[str, object], tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)))
    make_store(tmp_path / "another", numbered(50))
    run(spec)
    other = changed(spec, **difference)
    with pytest.raises(RefusedError):
        run(other)
    with pytest.raises(SourceChangedError):
        verify(other)


def test_a_published_directory_that_was_moved_away_is_reported(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)))
    run(spec)
    (tmp_path / "new").rename(tmp_path / "production")
    with pytest.raises(RefusedError, match="does not exist any more"):
        run(spec)


def test_another_directory_at_the_targets_path_is_never_taken_for_ours(tmp_path: Path) -> None:
    """Even where it got the inode of the one that a crash left."""
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)))
    raises(StoppedError, "", run, spec, on_event=StopAt("publish.intended"))
    (tmp_path / "new").mkdir()
    with pytest.raises(RefusedError, match="exists already"):
        run(spec)


def test_a_crash_between_rename_and_row_is_recognised_whatever_the_chunk_size_then(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(500)))
    raises(StoppedError, "", run, spec, on_event=StopAt("publish.renamed"))
    assert run(changed(spec, run={"chunk_size": 4096})).state == "published"
    assert read_family(tmp_path / "new") == numbered(500)


def test_a_write_while_the_new_directory_is_built_is_refused(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)))

    def write(event: Event) -> None:
        if event.name == "publish.started":
            with open_store(tmp_path / "old") as database:
                database[b"late"] = b"late"

    with pytest.raises(SourceChangedError, match="store old"):
        run(spec, on_event=write)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["with space", "umläut", "ha#sh", "que?ry"])
def test_any_path_will_do_for_the_ledger(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    spec = raw_spec(folder, make_store(folder / "old", numbered(50)))
    raises(StoppedError, "", run, spec, on_event=StopAt("assemble.started"))
    assert status(spec).totals.records_out == 50
    assert run(spec).state == "published"
    assert [row.step for row in read_ledger(spec.home)][-1] is Step.PUBLISHED


def test_a_path_that_delta_rs_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="%"):
        run(raw_spec(tmp_path / "per%20cent", make_store(tmp_path / "old", numbered(50))))


def test_a_version_is_part_of_what_the_migration_is_and_leaving_it_out_changes_nothing(tmp_path: Path) -> None:
    targets: list[dict[str, str]] = [{}, {"version": "4.3"}]
    without, named = (kafka_spec(tmp_path, tmp_path / "orders-app", target=target) for target in targets)
    target = '{"format":"kafka-streams.timestamped-key-value","path":"new/orders-app","stores":[]}'
    assert stable_json(without.target) == target
    before, after = (spec_identity(spec, conversion_ref(spec)) for spec in (without, named))
    assert {name for name in before if before[name] != after[name]} == {"[target]"}


@pytest.mark.parametrize("policy", ["dead-letter", "fail"])
def test_another_policy_for_rejects_holds_for_finished_chunks_too(policy: str, tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(
        "def convert(record):\n"
        "    if record.key == b'key-00000007':\n        raise ValueError('unlucky')\n"
        "    return record\n"
    )
    source = make_store(tmp_path / "old", numbered(500))
    accepting = {"on_reject": "skip", "max_rejects": 1}
    spec = raw_spec(tmp_path, source, conversion={"function": "picky:convert"}, run=accepting)
    raises(StoppedError, "", run, spec, on_event=StopAt("assemble.started"))
    again = changed(spec, run={"on_reject": policy, "max_rejects": 1})
    if policy == "fail":
        with pytest.raises(Exception, match="key-00000007"):
            run(again)
        return
    report = run(again)
    assert report.dead_letters is not None
    assert [row["key"] for row in read_delta(report.dead_letters)] == [b"key-00000007"]
    assert report.totals.records_in == 500
    assert len(read_family(tmp_path / "new")) == 499


def adding(suffix: bytes) -> Callable[[StateRecord], StateRecord]:
    return lambda record: StateRecord(record.key, record.value + suffix)


def test_a_function_with_other_values_in_its_closure_is_another_function(tmp_path: Path) -> None:
    old, new = make_store(tmp_path / "old", numbered(50)), tmp_path / "new"
    with pytest.raises(StoppedError):
        migrate_store(old, new, source=RAW, target=RAW, convert=adding(b"1"), on_event=StopAt("publish.started"))
    with pytest.raises(SourceChangedError, match="function"):
        migrate_store(old, new, source=RAW, target=RAW, convert=adding(b"2"))
    migrate_store(old, new, source=RAW, target=RAW, convert=adding(b"1"))
    assert read_family(new) == {key: value + b"1" for key, value in numbered(50).items()}


def test_a_helper_beside_the_spec_is_part_of_the_function(tmp_path: Path) -> None:
    (tmp_path / "main_part.py").write_text(
        "import helper_part\n\ndef convert(record):\n    return helper_part.same(record)\n"
    )
    (tmp_path / "helper_part.py").write_text("def same(record):\n    return record\n")
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)), conversion={"function": "main_part:convert"})
    raises(StoppedError, "", run, spec, on_event=StopAt("plan.stored"))
    (tmp_path / "helper_part.py").write_text("def same(record):\n    return record if record.key else None\n")
    with pytest.raises(SourceChangedError, match="function"):
        run(spec)


def test_trouble_of_the_machine_is_no_reject(tmp_path: Path) -> None:
    """A conversion that the system let down is tried again; the record is not left out."""
    planned: list[Event] = []

    def listen(event: Event) -> None:
        if event.name == "plan.stored":
            planned.append(event)

    def convert(record: StateRecord) -> StateRecord:
        if record.key == b"key-00000400" and planned:
            planned.clear()
            raise TimeoutError
        return record

    old = make_store(tmp_path / "old", numbered(500))
    migrate_store(old, tmp_path / "new", source=RAW, target=RAW, convert=convert, on_event=listen)
    assert planned == []
    assert read_family(tmp_path / "new") == numbered(500)


def _hold(spec: Spec, held: ProcessEvent, release: ProcessEvent) -> None:
    def listen(event: Event) -> None:
        if event.name == "snapshot.taken":
            held.set()
            release.wait(30)

    run(spec, on_event=listen)


def test_a_second_run_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "old", numbered(50)))
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    first = context.Process(target=_hold, args=(spec, held, release))
    first.start()
    assert held.wait(60)
    try:
        with pytest.raises(RefusedError, match="another run of this migration is at work"):
            run(spec)
    finally:
        release.set()
        first.join(60)
    assert first.exitcode == 0
    assert read_family(tmp_path / "new") == numbered(50)


def test_a_family_too_many_or_a_filled_default_does_not_stand_the_verification(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(50))
    target = {"format": "kafka-streams.timestamped-key-value"}
    damages: list[dict[str, dict[bytes, bytes]]] = [{"left-over": {}}, {"default": {b"key": b"value"}}]
    for number, damage in enumerate(damages):
        spec = raw_spec(
            tmp_path / str(number),
            shutil.copytree(source, tmp_path / str(number) / "old"),
            source={"format": KEY_VALUE},
            target=target,
        )
        raises(StoppedError, "", run, spec, on_event=StopAt("verify.started"))
        (new,) = (spec.home / "new").glob("*/old")
        make_families(new, damage)
        with pytest.raises(VerificationError, match=r"column families|content"):
            verify(spec)


def test_a_symbolic_link_in_the_state_directory_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(50))
    (tmp_path / "second-disk").mkdir()
    (source / "more").symlink_to(tmp_path / "second-disk")
    with pytest.raises(RefusedError, match="symbolic link"):
        run(raw_spec(tmp_path, source))
    assert not (tmp_path / "work").exists()


def _log_named_in(source: Path, place: Path) -> None:
    """As RocksDB does up to 6.22, also where the place is the directory of the database itself."""
    newest = sorted(source.glob("OPTIONS-*"))[-1]
    newest.write_text(newest.read_text().replace("[DBOptions]", f"[DBOptions]\n  wal_dir={place}", 1))


@pytest.mark.parametrize("is_left_behind", [False, True])
def test_a_write_ahead_log_elsewhere_is_refused(tmp_path: Path, *, is_left_behind: bool) -> None:
    source, elsewhere = make_store(tmp_path / "old", numbered(50)), tmp_path / "elsewhere"
    _log_named_in(source, elsewhere)
    elsewhere.mkdir()
    (log,) = source.glob("*.log")
    log.rename(elsewhere / "000100.log")
    if is_left_behind:
        log.touch()
    with pytest.raises(RefusedError, match=r"write-ahead log in another directory, .*/elsewhere"):
        run(raw_spec(tmp_path, source))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_of_an_earlier_opening_is_not_taken_for_one_elsewhere(tmp_path: Path, *, is_there: bool) -> None:
    source, elsewhere = make_store(tmp_path / "old", numbered(50)), tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_and_be_killed = (
        "import os, sys; from rocksdict import Options, Rdict; options = Options(raw_mode=True); "
        "options.set_wal_dir(sys.argv[2]); store = Rdict(sys.argv[1], options=options); store[b'in the log'] = b'1'; "
        "store.flush_wal(True); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", write_and_be_killed, source, elsewhere], check=True, timeout=120)
    assert list(source.glob("*.log"))
    (log,) = elsewhere.glob("*.log")
    if not is_there:
        elsewhere = elsewhere.rename(tmp_path / "unmounted")
    with pytest.raises(RefusedError, match="write-ahead log in another directory") as refused:
        run(raw_spec(tmp_path, source))
    assert (", which is not there" in refused.value.message) is not is_there
    assert "move the *.log files" in (refused.value.hint or "")
    shutil.move(elsewhere / log.name, source)
    options = Options(raw_mode=True)
    options.set_wal_dir(str(source))
    Rdict(str(source), options=options).close()
    run(raw_spec(tmp_path, source))
    assert read_family(tmp_path / "new") == {**dict(numbered(50)), b"in the log": b"1"}


@pytest.mark.parametrize("place", ["old", "moved", "gone"])
def test_a_write_ahead_log_in_the_directory_itself_is_found_wherever_that_was(place: str, tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(50))
    _log_named_in(source, tmp_path / place)
    if place == "moved":
        shutil.copytree(source, tmp_path / place)
    assert run(raw_spec(tmp_path, source)).state == "published"


def test_a_damaged_options_file_is_refused(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(50))
    sorted(source.glob("OPTIONS-*"))[-1].write_text("neither a section nor a key\n")
    with pytest.raises(RefusedError, match=r"OPTIONS-.* cannot be parsed"):
        run(raw_spec(tmp_path, source))
